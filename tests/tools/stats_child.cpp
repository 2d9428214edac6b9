// stats_child: codes by isal what it is told, for a test that reads what was counted. Each line of its input
// is one of
//   encode TIMES BYTES   or decode, update: chunks of BYTES bytes, 4+2; decode: one lost
//   fork                 a child that encodes 7 times and stays
// and is answered with "ok", or the PID of the child.
#include <sys/prctl.h>
#include <unistd.h>

#include <csignal>
#include <iostream>
#include <string>
#include <vector>

#include "plugin/codec/codec.hpp"

namespace {

constexpr unsigned k = 4;
constexpr unsigned m = 2;

class Coder {
 public:
  bool code(const std::string& operation, std::size_t bytes) const {
    std::vector<std::uint8_t> memory((k + m) * bytes, 0x5a);
    std::vector<ec::kernels::Source> chunks;
    std::vector<ec::kernels::Target> out;
    for (unsigned c = 0; c < k + m; ++c) {
      chunks.push_back({memory.data() + c * bytes});
      out.push_back({memory.data() + c * bytes});
    }
    const auto data = std::span(chunks).first(k);
    const auto coding = std::span(out).last(m);
    if (operation == "encode") return codec_.encode(data, coding, bytes) == ec::kernels::Status::ok;
    if (operation == "update") return codec_.update(0, data[0], coding, bytes) == ec::kernels::Status::ok;
    const auto plan =
        codec_.plan({ec::gf::ChunkSet::first(k + m) - ec::gf::ChunkSet{1}, ec::gf::ChunkSet{1}});
    return plan && codec_.decode(*plan, chunks, out, bytes) == ec::kernels::Status::ok;
  }

 private:
  ec::codec::Codec codec_{ec::gf::Technique::reed_sol_van, k, m,
                          ec::codec::Router(ec::codec::BackendChoice::isal, 0)};
};

pid_t child_that_stays(const Coder& coder) {
  const pid_t child = fork();
  if (child != 0) return child;
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  for (int i = 0; i < 7; ++i)
    if (!coder.code("encode", 64)) _exit(1);
  for (;;) pause();
}

}  // namespace

int main() {
  const Coder coder;
  std::string operation;
  while (std::cin >> operation) {
    if (operation == "fork") {
      const pid_t child = child_that_stays(coder);
      usleep(300'000);
      std::cout << child << std::endl;
      continue;
    }
    unsigned times = 0;
    std::size_t bytes = 0;
    std::cin >> times >> bytes;
    for (unsigned i = 0; i < times; ++i)
      if (!coder.code(operation, bytes)) return 1;
    std::cout << "ok" << std::endl;
  }
}
