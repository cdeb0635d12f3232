// Command-line parsing, output and run_main().
#pragma once

#include <atomic>
#include <boost/program_options.hpp>
#include <cstddef>
#include <functional>
#include <set>
#include <string>
#include <vector>

#include "common/text/spelling.h"

namespace coldframe {

// True: run_main() ends the program at once, without the destructors of static objects, where what
// libraries have registered for the program's end would fail. Any thread may set it.
inline std::atomic<bool> leaves_without_destructors = false;

// std::cout and std::cerr, whose text is made printable on its way, whoever writes it.

// From now on both write as printable() has it. Once is enough; text of C's stdio does not come by.
void make_output_printable();

// Why std::cout could not be written since then, as errno; 0: all that was flushed has arrived.
int output_error();

// Writes all, waiting where a pipe, a terminal or a FIFO is full; false with errno.
bool write_all(int descriptor, const char* bytes, std::size_t size);

// Command lines: Boost.Program_options bound to options structs, `--config FILE`, `--help` with an
// example that works, and the one catch around main.

// --help says this before and after the list of options.
struct CommandHelp {
  std::string usage;    // "coldframe extract --input PATH --out CACHE [options]"
  std::string summary;  // one or two sentences
  std::string example;  // a command that works as it stands
  // The sections of --config that this command and its kin have: "cache ls", "cache info". Empty:
  // that of the usage.
  std::vector<std::string> sections = {};
  std::vector<std::string> most_used = {};  // options that --help shows; empty: all, as --help-all
};

// The long names of options that were given, on the command line or in the file of --config; a
// switch that the file sets to false is not.
using GivenOptions = std::set<std::string, std::less<>>;

// Parses `arguments` into the variables that `options` binds. Adds --help, --help-all, --version,
// --config FILE (INI: each long option is a key; sections [extract], [cache ls] are for that
// command, which `help.usage` names; the command line wins) and --quiet. Returns false when help
// was asked for and has been printed to stdout. `positional` names the option that takes bare
// words, "" for none. `given`: see above; null: nobody asks. ConfigError for an unknown option
// (naming the nearest known one), a missing or a malformed value.
bool parse_command_line(const CommandHelp& help,
                        boost::program_options::options_description options,
                        const std::vector<std::string>& arguments,
                        const std::string& positional = "", GivenOptions* given = nullptr);

// A word out of a fixed set: choice("pool", "mean", {"cls", "mean"}); ConfigError lists the set.
std::size_t choice(const std::string& option, const std::string& word,
                   const std::vector<std::string>& allowed);

// Returns what the word stands for: choice<bool>("sampler", "order", {{"order", false}, …}).
template <typename T>
T choice(const std::string& option, const std::string& word, const WordTable<T>& table) {
  return table[choice(option, word, words_in(table))].second;
}

// Runs `body` with argv[1…]; turns what it throws into one message on stderr and the exit code of
// error.h.
int run_main(int argc, char** argv,
             const std::function<int(const std::vector<std::string>&)>& body);

inline constexpr const char* kVersion = "0.1.0";  // run_main answers --version

}  // namespace coldframe
