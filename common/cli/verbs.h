// The verbs of a command: `coldframe cache ls`, `coldframe bundle make`.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "common/cli/cli.h"

namespace coldframe {

struct Verb;

// --help says `before` and `after` around the list of verbs.
struct Command {
  const char* name;  // "cache"
  const char* before;
  const char* after;
  std::span<const Verb* const> verbs;
};

struct Verb {
  const Command* command;
  const char* name;
  const char* words;    // the bare words that it takes: "PATH", "A B", "OUT A…" (one A or more)
  const char* example;  // what may follow the verb
  const char* summary;
  int (*run)(const Verb& verb, const std::vector<std::string>& arguments);  // -> the exit code
};

// Every verb takes its bare words, and --json.
struct VerbOptions {
  std::vector<std::string> words;
  bool json = false;
  const std::string& path() const { return words.front(); }
};

// False when help was asked for and has been printed. `more`: the verb's own options. ConfigError,
// also for another number of words than the verb takes.
bool parse_verb(const Verb& verb, const std::vector<std::string>& arguments, VerbOptions& options,
                const boost::program_options::options_description& more = {});

// Runs the verb that arguments[0] names with what follows, or prints the command's help.
// ConfigError for an unknown verb.
int run_verb(const Command& command, const std::vector<std::string>& arguments);

}  // namespace coldframe
