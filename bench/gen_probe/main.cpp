// Runs every kernel variant of variants.cpp on the GPU, checks it, times it against a device-to-device copy.
#include <algorithm>
#include <atomic>
#include <cstdio>
#include <cstring>
#include <map>
#include <mutex>
#include <thread>

#include <nlohmann/json.hpp>

#include "bench/gen_probe/driver.hpp"
#include "bench/gen_probe/kernel_text.hpp"
#include "bench/gen_probe/variants.hpp"
#include "gf/gf256.hpp"
#include "kernels/cuda/generate/emit.hpp"
#include "kernels/cuda/generate/nvrtc.hpp"

using namespace probe;
using ec::kernels::cuda::compile;
using ec::kernels::cuda::Compiled;
using u64 = unsigned long long;

namespace {
constexpr std::size_t total_bytes = std::size_t{3} << 29;  // 1.5 GiB of chunks
std::uint32_t mix(std::uint32_t chunk, std::uint32_t i) {
  std::uint32_t h = i * 0x9e3779b1u ^ chunk * 0x85ebca6bu;
  h = (h ^ h >> 15) * 0x2c1b3c6du;
  h = (h ^ h >> 12) * 0x297a2d39u;
  return h ^ h >> 15;
}
struct Timing {
  double median_ms, noise;
};

class Bench {
 public:
  Bench() {
    d("cuInit", 0u);
    CUdevice dev;
    d("cuDeviceGet", &dev, 0);
    CUcontext ctx;
    d("cuDevicePrimaryCtxRetain", &ctx, dev);
    d("cuCtxSetCurrent", ctx);
    d("cuDeviceGetAttribute", &sms, (int)CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, dev);
    d("cuMemAlloc_v2", &memory, total_bytes + (64 << 20));
    d("cuMemAlloc_v2", &table, std::size_t{16} << 20);
    d("cuEventCreate", &start, 0u);
    d("cuEventCreate", &stop, 0u);
  }
  template <class F>
  Timing time(F&& f, int reps = 13) {
    f();
    f();
    std::vector<double> t;
    for (int i = 0; i < reps; ++i) {
      d("cuEventRecord", start, (CUstream) nullptr);
      f();
      d("cuEventRecord", stop, (CUstream) nullptr);
      d("cuEventSynchronize", stop);
      float ms;
      d("cuEventElapsedTime", &ms, start, stop);
      t.push_back(ms);
    }
    std::sort(t.begin(), t.end());
    return {t[t.size() / 2], 100 * (t[t.size() * 3 / 4] - t[t.size() / 4]) / 2 / t[t.size() / 2]};
  }
  CUfunction load(const std::vector<char>& cubin, const char* entry) {
    CUmodule m;
    d("cuModuleLoadData", &m, (const void*)cubin.data());
    CUfunction f;
    d("cuModuleGetFunction", &f, m, entry);
    return f;
  }
  void launch(CUfunction f, unsigned gx, unsigned gy, unsigned threads, std::vector<unsigned char>& params) {
    std::size_t size = params.size();
    void* extra[] = {CU_LAUNCH_PARAM_BUFFER_POINTER, params.data(), CU_LAUNCH_PARAM_BUFFER_SIZE, &size,
                     CU_LAUNCH_PARAM_END};
    d("cuLaunchKernel", f, gx, gy, 1u, threads, 1u, 1u, 0u, (CUstream) nullptr, (void**)nullptr,
      (void**)extra);
  }
  Driver d;
  int sms = 0;
  CUdeviceptr memory = 0, table = 0;
  CUevent start, stop;
};

template <class T>
void put(std::vector<unsigned char>& v, const T& x) {
  const auto* p = reinterpret_cast<const unsigned char*>(&x);
  v.insert(v.end(), p, p + sizeof x);
}
}  // namespace

int main(int argc, char** argv) {
  const std::string out = argc > 1 ? argv[1] : ".";
  const std::string only = argc > 2 ? argv[2] : "";
  auto list = variants();
  if (!only.empty())
    std::erase_if(list, [&](const Variant& v) {
      return fmt::format("{} {}+{} {}", v.kernel, v.k, v.m, v.settings).find(only) == std::string::npos &&
             v.kernel != "xor";
    });
  // Compile each distinct source once, on all cores.
  std::map<std::string, Compiled> programs;
  for (auto& v : list)
    for (auto& p : v.passes) programs[p.source];
  std::vector<std::pair<const std::string, Compiled>*> todo;
  for (auto& p : programs) todo.push_back(&p);
  std::atomic<std::size_t> next{0};
  auto t0 = time(nullptr);
  {
    std::vector<std::jthread> pool;
    for (unsigned i = 0; i < std::max(1u, std::thread::hardware_concurrency()); ++i)
      pool.emplace_back([&] {
        for (std::size_t j; (j = next++) < todo.size();)
          todo[j]->second = compile(todo[j]->first, 90, {"-Xptxas=-v"});
      });
  }
  std::printf("%zu programs compiled in %ld s\n", todo.size(), (long)(time(nullptr) - t0));
  for (auto* p : todo)
    if (!p->second) std::printf("compile failed: %.300s\n", p->second.log.c_str());
  if (argc > 3) return 0;

  Bench b;
  const auto fill_program = compile(fill_text, 90);
  CUfunction fill = b.load(fill_program.cubin, "ec_fill");
  const std::size_t half = std::size_t{1} << 29;
  auto copy =
      b.time([&] { b.d("cuMemcpyDtoDAsync_v2", b.memory + half, b.memory, half, (CUstream) nullptr); });
  const std::size_t big = std::size_t{3} << 28;
  auto copy2 =
      b.time([&] { b.d("cuMemcpyDtoDAsync_v2", b.memory + big, b.memory, big, (CUstream) nullptr); });
  const double copy_gbps = std::max(2.0 * half / copy.median_ms / 1e6, 2.0 * big / copy2.median_ms / 1e6);
  std::printf("copy %.0f GB/s moved\n", copy_gbps);
  nlohmann::json rows = nlohmann::json::array();
  std::map<std::pair<unsigned, unsigned>, double> best_xor;
  struct Line {
    double gbps;
    std::string text;
  };
  std::map<std::string, std::vector<Line>> lines;
  for (auto& v : list) try {
      const unsigned n = v.k + v.m;
      const std::size_t chunk = total_bytes / n / 65536 * 65536;
      const auto address = [&](unsigned i) { return (u64)(b.memory + i * (chunk + 4096 * 0)); };
      if (v.kernel == "mma_rate") {
        std::vector<unsigned char> p;
        put(p, address(0));
        put(p, address(0));
        put(p, (u64)4096);
        put(p, (u64)b.table);
        CUfunction f = b.load(programs[v.passes[0].source].cubin, v.passes[0].entry.c_str());
        auto t = b.time([&] { b.launch(f, b.sms * 4, 1, v.threads, p); });
        std::printf("mma_rate: %.0f m16n8k256/ns (whole chip), per SM per cycle@1.755: %.3f\n",
                    b.sms * 4.0 * v.threads / 32 * 4096 * 8 / t.median_ms / 1e6,
                    4.0 * v.threads / 32 * 4096 * 8 / (t.median_ms * 1.755e6));
        continue;
      }
      for (unsigned i = 0; i < v.k; ++i) {
        u64 words = chunk / 4, to = address(i);
        unsigned c = i;
        void* params[] = {&to, &words, &c};
        b.d("cuLaunchKernel", fill, 1024u, 1u, 1u, 256u, 1u, 1u, 0u, (CUstream) nullptr, (void**)params,
            (void**)nullptr);
      }
      b.d("cuMemsetD8_v2", (CUdeviceptr)address(v.k), (unsigned char)0xee, chunk * v.m);
      const auto matrix = coding(v.k, v.m);
      std::vector<std::uint32_t> words;
      if (v.extra == Extra::fragments) words = fragments(matrix);
      if (v.extra == Extra::tables || v.extra == Extra::table_parameters) words = tables(matrix);
      if (!words.empty()) b.d("cuMemcpyHtoD_v2", b.table, (const void*)words.data(), words.size() * 4);
      struct Ready {
        CUfunction f;
        unsigned gx;
        std::vector<unsigned char> params;
      };
      std::vector<Ready> ready;
      std::string report;
      bool ok = true;
      for (auto& pass : v.passes) {
        auto& program = programs[pass.source];
        if (!program) {
          ok = false;
          break;
        }
        Ready r;
        r.f = b.load(program.cubin, pass.entry.c_str());
        for (unsigned i = 0; i < v.k; ++i) put(r.params, address(i));
        for (unsigned i = 0; i < pass.rows; ++i) put(r.params, address(v.k + pass.first_row + i));
        put(r.params, (u64)chunk);
        if (v.extra == Extra::generated) {
          put(r.params, (u64)1);
          for (auto m : ec::kernels::cuda::multipliers) put(r.params, m);
        } else
          put(r.params, (u64)b.table);
        if (v.extra == Extra::table_parameters)
          for (auto w : words) put(r.params, w);
        const std::size_t tiles = (chunk + v.warp_tile - 1) / v.warp_tile;
        unsigned blocks = (unsigned)((tiles + v.threads / 32 - 1) / (v.threads / 32));
        int per_sm = 0;
        b.d("cuOccupancyMaxActiveBlocksPerMultiprocessor", &per_sm, r.f, (int)v.threads, (std::size_t)0);
        int regs = 0, local = 0;
        b.d("cuFuncGetAttribute", &regs, (int)CU_FUNC_ATTRIBUTE_NUM_REGS, r.f);
        b.d("cuFuncGetAttribute", &local, (int)CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES, r.f);
        report = fmt::format("r{} l{} occ{} {}KiB", regs, local, per_sm * v.threads / 32,
                             program.cubin.size() >> 10);
        if (v.waves != 0)
          blocks = std::min(blocks, v.waves * b.sms * std::max(per_sm, 1) / std::max(1u, v.grid_y));
        r.gx = std::max(blocks, 1u);
        ready.push_back(std::move(r));
      }
      if (!ok) {
        std::printf("SKIP %s %u+%u %s: no program\n", v.kernel.c_str(), v.k, v.m, v.settings.c_str());
        continue;
      }
      auto run = [&] {
        for (auto& r : ready) b.launch(r.f, r.gx, v.grid_y, v.threads, r.params);
      };
      run();
      b.d("cuCtxSynchronize");
      bool right = true;
      if (v.verified) {
        std::vector<std::size_t> at{0, 4096, chunk / 3 / 16 * 16, chunk / 2, chunk - 2048, chunk - 33 * 1024};
        for (unsigned t = 0; t < v.m && right; ++t)
          for (auto a : at) {
            std::vector<unsigned char> got(2048);
            b.d("cuMemcpyDtoH_v2", (void*)got.data(), (CUdeviceptr)(address(v.k + t) + a), got.size());
            for (std::size_t i = 0; i < got.size() && right; ++i) {
              unsigned char want = 0;
              for (unsigned s = 0; s < v.k; ++s)
                want ^= ec::gf::mul(
                    matrix(t, s), (unsigned char)(mix(s, (std::uint32_t)((a + i) / 4)) >> 8 * ((a + i) % 4)));
              right = want == got[i];
            }
          }
      }
      const auto t = b.time(run);
      const double moved = (double)chunk * n / t.median_ms / 1e6;
      auto& x = best_xor[{v.k, v.m}];
      if (v.kernel == "xor") x = std::max(x, moved);
      rows.push_back({{"kernel", v.kernel},
                      {"settings", v.settings},
                      {"k", v.k},
                      {"m", v.m},
                      {"chunk_bytes", chunk},
                      {"moved_gbps", moved},
                      {"ratio_copy", moved / copy_gbps},
                      {"ratio_xor", x > 0 ? moved / x : 0},
                      {"noise", t.noise},
                      {"verified", right},
                      {"report", report}});
      lines[fmt::format("{:3}+{:<3} {}", v.k, v.m, v.kernel)].push_back(
          {right ? moved : -moved,
           fmt::format("{:7.0f} GB/s {:.3f} copy {:.3f} xor  n{:.1f}% {} | {} | {}", moved, moved / copy_gbps,
                       x > 0 ? moved / x : 0, t.noise, right ? "ok" : "WRONG", v.settings, report)});
    } catch (const std::exception& e) {
      std::printf("FAILED %s %u+%u %s: %s\n", v.kernel.c_str(), v.k, v.m, v.settings.c_str(), e.what());
      if (std::string(e.what()).find("cuCtxSynchronize") != std::string::npos ||
          std::string(e.what()).find("EventSynch") != std::string::npos)
        break;
    }
  FILE* json = std::fopen((out + "/probe.json").c_str(), "w");
  if (json) {
    std::fputs(rows.dump(1).c_str(), json);
    std::fclose(json);
  }
  for (auto& [key, l] : lines) {
    std::stable_sort(l.begin(), l.end(), [](const Line& a, const Line& b) { return a.gbps > b.gbps; });
    std::printf("%s\n", key.c_str());
    for (std::size_t i = 0; i < l.size() && (i < 3); ++i) std::printf("   %s\n", l[i].text.c_str());
    if (l.size() > 3 && l.back().gbps < 0) std::printf("   %s\n", l.back().text.c_str());
  }
}
