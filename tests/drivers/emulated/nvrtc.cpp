// A stand-in for libnvrtc.so.13 whose machine code only the emulated driver understands (generated.hpp):
// generated programs are asked for, compiled and loaded without a compiler.
#include <cstring>
#include <string>

#include "tests/drivers/emulated/generated.hpp"

#define EXPORTED extern "C" __attribute__((visibility("default")))

namespace {

constexpr int success = 0, invalid_input = 3, compilation = 6;

struct Program {
  std::string source, image, log;
};

Program* of(void* program) { return static_cast<Program*>(program); }

}  // namespace

EXPORTED int nvrtcCreateProgram(void** program, const char* source, const char*, int headers,
                                const char* const*, const char* const*) {
  if (source == nullptr || headers != 0) return invalid_input;
  *program = new Program{source, {}, {}};
  return success;
}
EXPORTED int nvrtcCompileProgram(void* program, int, const char* const*) {
  Program& p = *of(program);
  p.image = ec::test::emulated::image_of(p.source);
  p.log = p.image.empty() ? "error: this is no generated program" : "for the emulated device";
  return p.image.empty() ? compilation : success;
}
EXPORTED int nvrtcDestroyProgram(void** program) {
  delete of(*program);
  *program = nullptr;
  return success;
}
EXPORTED int nvrtcGetProgramLogSize(void* program, std::size_t* bytes) {
  *bytes = of(program)->log.size() + 1;
  return success;
}
EXPORTED int nvrtcGetProgramLog(void* program, char* to) {
  std::memcpy(to, of(program)->log.c_str(), of(program)->log.size() + 1);
  return success;
}
EXPORTED int nvrtcGetCUBINSize(void* program, std::size_t* bytes) {
  *bytes = of(program)->image.size();
  return success;
}
EXPORTED int nvrtcGetCUBIN(void* program, char* to) {
  std::memcpy(to, of(program)->image.data(), of(program)->image.size());
  return success;
}
EXPORTED const char* nvrtcGetErrorString(int result) {
  return result == success       ? "NVRTC_SUCCESS"
         : result == compilation ? "NVRTC_ERROR_COMPILATION"
                                 : "NVRTC_ERROR";
}
