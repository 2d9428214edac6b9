// The command line of a sub-command: its options, and their values, checked.
#pragma once

#include <boost/program_options.hpp>
#include <cstddef>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "gf/generator.hpp"

namespace ec::bench {

/// A command line that cannot be used; the text names the option, its value and what is allowed.
class UsageError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// k data and m coding chunks.
using Shape = std::pair<unsigned, unsigned>;

/// One line-up: every contestant does exactly this.
struct Case {
  std::string op;
  gf::Technique technique = gf::Technique::reed_sol_van;
  unsigned k = 0;
  unsigned m = 0;
  std::size_t chunk_bytes = 0;

  /// Of the data chunks of a call.
  double gb() const { return 1e-9 * static_cast<double>(k * chunk_bytes); }
};

class CommandLine;

struct Option {
  std::string name, fallback, help;
};

/// body returns the exit status: 0; 1 if bytes were wrong; 77 if nothing can be counted here. It throws
/// UsageError for a command line that cannot be used, and other exceptions if something fails.
struct Subcommand {
  std::string name;
  std::vector<Option> options;  ///< besides --help and --csv
  int (*body)(const CommandLine&);
};

/// The back ends of the CPU beside the memory bound; the device kernels on chunks in device memory, beside a
/// copy there; calls through the codec, beside what the link can do; instructions of calls; the file tool.
Subcommand cpu(), gpu(), host(), instructions(), files();

/// Parses the arguments behind the name, and does what is asked for. The exit status: of the body; 0 after
/// --help; 2 with a text on stderr for a command line that cannot be used, 1 if there is another exception.
int run(const Subcommand& subcommand, const std::vector<std::string>& arguments);

inline constexpr std::size_t kib = 1 << 10, mib = 1 << 20, gib = 1 << 30;

/// Values throw UsageError where they are not what is asked for. Numbers take the suffixes K, M and G for
/// powers of 1024. The parts of a list stand between commas or spaces.
class CommandLine {
 public:
  CommandLine(const Subcommand& subcommand, const std::vector<std::string>& arguments,
              const boost::program_options::variables_map& given)
      : subcommand_(subcommand.name), arguments_(arguments), given_(given) {}

  /// As it was typed, behind the settings of the environment, those of the allocator among them.
  std::string typed() const;
  bool given(const std::string& option) const { return !given_[option].defaulted(); }
  /// The one value, which must be of `allowed`, if that has any. No value that is given is empty.
  std::string text(const std::string& option, const std::vector<std::string>& allowed = {}) const;
  std::size_t number(const std::string& option, std::size_t lowest, std::size_t highest) const;
  /// Of an option in milliseconds.
  double seconds(const std::string& option) const { return 1e-3 * double(number(option, 0, 600'000)); }

  /// Parts that must be of `allowed`, if that has any; all of `allowed` where there are none.
  std::vector<std::string> list(const std::string& option,
                                const std::vector<std::string>& allowed = {}) const;
  std::vector<std::size_t> numbers(const std::string& option, std::size_t lowest, std::size_t highest,
                                   std::size_t multiple_of = 1) const;
  /// K+M.
  std::vector<Shape> shapes(const std::string& option) const;

 private:
  std::string joined(const std::string& option) const;

  std::string subcommand_;
  std::vector<std::string> arguments_;
  boost::program_options::variables_map given_;
};

/// The technique. Throws UsageError where it does not have the shape.
gf::Technique require_shape(gf::Technique technique, Shape shape);

/// The technique that codes a shape: reed_sol_van, or cauchy where the Vandermonde matrix does not have it.
/// Throws UsageError where that has not either.
gf::Technique technique_for(Shape shape);

}  // namespace ec::bench
