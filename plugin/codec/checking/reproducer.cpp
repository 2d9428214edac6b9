// The file of a mismatch: see reproducer.hpp.
#include "plugin/codec/checking/reproducer.hpp"

#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <ctime>
#include <vector>

#include "support/files.hpp"

namespace ec::codec {
namespace {

std::string content(std::string_view backend, const BlockViews& views, const SavedTargets* before,
                    const std::uint8_t* got) {
  const kernels::Job& job = views.job();
  const auto [offset, bytes] = views.block();
  const std::size_t sources = job.sources.size(), targets = job.targets.size();
  std::string file = fmt::format("{}backend={} verb={} sources={} targets={} chunk={} block={} offset={}\n",
                                 reproducer_begin, backend, verb_names[before != nullptr], sources, targets,
                                 job.bytes, bytes, offset);
  const auto add = [&](const std::uint8_t* from, std::size_t count) {
    file.append(reinterpret_cast<const char*>(from), count);
  };
  const auto add_place = [&](const std::uint8_t* chunk) {
    file += static_cast<char>(reinterpret_cast<std::uintptr_t>(chunk) % 256);
  };
  for (const auto& source : job.sources) add_place(source.data);
  for (const auto& target : job.targets) add_place(target.data);
  add(job.program->matrix().cells().data(), job.program->matrix().cells().size());
  for (std::size_t i = 0; i < sources; ++i) add(views.source(i), bytes);
  for (std::size_t i = 0; before != nullptr && i < targets; ++i)
    add(before->bytes.data() + i * job.bytes + offset, bytes);
  for (std::size_t i = 0; i < targets; ++i) add(got != nullptr ? got + i * bytes : views.target(i), bytes);
  return file;
}

}  // namespace

std::string write_reproducer(const std::string& directory, std::string_view backend, const BlockViews& views,
                             const SavedTargets* before, const std::uint8_t* got, std::string* why) {
  constexpr std::string_view prefix = "mismatch-";
  const auto refuse = [&](const std::string& sentence) {
    *why = fmt::format("{}: {}", directory, sentence);
    return std::string();
  };
  mkdir(directory.c_str(), 0700);
  support::Descriptor opened;
  std::string untrusted;
  if (support::open_directory(directory, support::Trust::root_or_self, &opened, &untrusted) != 0)
    return refuse(untrusted);
  std::vector<std::string> names;
  int error = support::list_directory(opened.get(), &names);
  if (std::ranges::count_if(names, [&](const auto& name) { return name.starts_with(prefix); }) >=
      most_reproducers)
    return refuse(fmt::format("it holds {} of them already, which is all that are kept", most_reproducers));
  const std::string name = fmt::format("{}{}-{}-{}.bin", prefix, backend, std::time(nullptr), getpid());
  if (error == 0)
    error = support::write_new_file(opened.get(), name, content(backend, views, before, got), 0600);
  if (error != 0) return refuse(fmt::format("it cannot be written to: {}", std::strerror(-error)));
  return directory + "/" + name;
}

}  // namespace ec::codec
