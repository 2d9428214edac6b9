// Codes a file into k + m chunk files, loses m of them, and recovers the file from the rest.
//
// usage: code_file FILE DIRECTORY [K M]
//
// The file is cut into stripes of k chunks of 64 KiB; chunk file c holds chunk c of every stripe. The last
// stripe is filled up with zeros, so the length of the file must be kept somewhere: here in the file
// "length".
#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <stdexcept>
#include <string>
#include <vector>

#include "ec/codec.hpp"

namespace fs = std::filesystem;

namespace {

constexpr std::size_t chunk_bytes = 64 * 1024;
/// Coded in one call; bounds memory whatever the length of the file.
constexpr std::size_t stripes_at_once = 16;

using Bytes = std::vector<std::byte>;

/// Throws if there is an error: a small program wants to end with a sentence.
void check(const ec::Error& error) {
  if (error) throw std::system_error(error.code(), error.text());
}

template <class File>
File open(const fs::path& path) {
  File file(path, std::ios::binary);
  if (!file) throw std::runtime_error("cannot open " + path.string());
  return file;
}

fs::path chunk_path(const fs::path& directory, unsigned chunk) {
  return directory / ("chunk." + std::to_string(chunk));
}

/// Reads as much as there is, up to the size of `bytes`; the rest becomes zeros.
std::size_t read(std::istream& from, Bytes& bytes) {
  from.read(reinterpret_cast<char*>(bytes.data()), static_cast<std::streamsize>(bytes.size()));
  const auto count = static_cast<std::size_t>(from.gcount());
  std::fill(bytes.begin() + static_cast<std::ptrdiff_t>(count), bytes.end(), std::byte{0});
  return count;
}

void write(std::ostream& to, const std::byte* bytes, std::size_t count) {
  to.write(reinterpret_cast<const char*>(bytes), static_cast<std::streamsize>(count));
  if (!to) throw std::runtime_error("cannot write");
}

/// Chunk i of `bytes`, for i below count, as the codec takes it.
template <class Chunk>
std::vector<Chunk> chunks_of(Bytes& bytes, std::size_t count) {
  std::vector<Chunk> chunks;
  for (std::size_t i = 0; i < count; ++i) chunks.emplace_back(bytes.data() + i * chunk_bytes, chunk_bytes);
  return chunks;
}

void encode(const ec::Codec& codec, const fs::path& file, const fs::path& directory) {
  const unsigned k = codec.k(), m = codec.m();
  auto from = open<std::ifstream>(file);
  std::vector<std::ofstream> to;
  for (unsigned c = 0; c < k + m; ++c) to.push_back(open<std::ofstream>(chunk_path(directory, c)));

  Bytes data(stripes_at_once * k * chunk_bytes), coding(stripes_at_once * m * chunk_bytes);
  std::uintmax_t length = 0;
  while (const std::size_t count = read(from, data)) {
    length += count;
    const std::size_t stripes = (count + k * chunk_bytes - 1) / (k * chunk_bytes);
    check(codec.encode(chunks_of<ec::Source>(data, stripes * k), chunks_of<ec::Target>(coding, stripes * m)));
    for (std::size_t s = 0; s < stripes; ++s)
      for (unsigned c = 0; c < k + m; ++c)
        write(to[c], c < k ? &data[(s * k + c) * chunk_bytes] : &coding[(s * m + c - k) * chunk_bytes],
              chunk_bytes);
  }
  open<std::ofstream>(directory / "length") << length << '\n';
}

void decode(const ec::Codec& codec, const fs::path& directory, const fs::path& file) {
  const unsigned k = codec.k(), m = codec.m();
  std::uintmax_t length = 0;
  open<std::ifstream>(directory / "length") >> length;

  // Any k chunks do. Data chunks come first, so that as little as possible has to be computed.
  std::vector<unsigned> available, lost;
  std::vector<std::ifstream> from;
  for (unsigned c = 0; c < k + m && available.size() < k; ++c)
    if (fs::exists(chunk_path(directory, c))) {
      available.push_back(c);
      from.push_back(open<std::ifstream>(chunk_path(directory, c)));
    } else if (c < k) {
      lost.push_back(c);
    }

  auto to = open<std::ofstream>(file);
  Bytes one(chunk_bytes), data(k * chunk_bytes), coding(m * chunk_bytes);
  const auto place = [&](unsigned c) {
    return c < k ? &data[c * chunk_bytes] : &coding[(c - k) * chunk_bytes];
  };
  while (length > 0) {
    std::vector<ec::Source> sources;
    for (std::size_t i = 0; i < available.size(); ++i) {
      if (read(from[i], one) != chunk_bytes) throw std::runtime_error("a chunk file is too short");
      std::ranges::copy(one, place(available[i]));
      sources.emplace_back(place(available[i]), chunk_bytes);
    }
    std::vector<ec::Target> targets;
    for (const unsigned c : lost) targets.emplace_back(place(c), chunk_bytes);
    check(codec.decode(available, sources, lost, targets));
    const auto count = std::min<std::uintmax_t>(length, data.size());
    write(to, data.data(), count);
    length -= count;
  }
}

bool same(const fs::path& a, const fs::path& b) {
  auto one = open<std::ifstream>(a), other = open<std::ifstream>(b);
  return std::equal(std::istreambuf_iterator(one), {}, std::istreambuf_iterator(other), {});
}

void run(const fs::path& file, const fs::path& directory, unsigned k, unsigned m) {
  const auto codec = ec::Codec::create(k, m, ec::Technique::cauchy);
  if (!codec) check(codec.error());
  fs::create_directories(directory);
  encode(*codec, file, directory);
  for (unsigned c = 0; c < m; ++c) fs::remove(chunk_path(directory, c));
  decode(*codec, directory, directory / "recovered");
  if (!same(file, directory / "recovered")) throw std::runtime_error("the recovered file differs");
  std::cout << file.string() << ": " << fs::file_size(file) << " bytes, coded " << k << "+" << m << ", lost "
            << m << " chunk files, recovered\n";
}

}  // namespace

int main(int argc, char** argv) try {
  if (argc != 3 && argc != 5) {
    std::cerr << "usage: code_file FILE DIRECTORY [K M]\n";
    return 2;
  }
  const auto number = [&](int i) { return static_cast<unsigned>(std::stoul(argv[i])); };
  run(argv[1], argv[2], argc == 5 ? number(3) : 4, argc == 5 ? number(4) : 2);
  return 0;
} catch (const std::exception& e) {
  std::cerr << "code_file: " << e.what() << '\n';
  return 1;
}
