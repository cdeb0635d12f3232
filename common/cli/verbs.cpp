#include "common/cli/verbs.h"

#include <iostream>

#include "common/cli/error.h"
#include "common/text/spelling.h"
#include "common/text/table.h"
#include "common/text/text.h"

namespace coldframe {
namespace {

void print_help(const Command& command) {
  std::cout << command.before << "\n\nVerbs:\n";
  for (const Verb* verb : command.verbs)
    std::cout << "  " << padded(verb->name, 10) << verb->summary << '\n';
  std::cout << '\n' << command.after << '\n';
}

}  // namespace

bool parse_verb(const Verb& verb, const std::vector<std::string>& arguments, VerbOptions& options,
                const boost::program_options::options_description& more) {
  namespace po = boost::program_options;
  const std::string name = concat("coldframe ", verb.command->name, " ", verb.name);
  const std::string words = verb.words;
  po::options_description description("Options");
  description.add(more);
  auto add = description.add_options();
  add("words", po::value(&options.words)->value_name(words), "the same as bare words");
  add("json", po::bool_switch(&options.json), "print JSON instead of text");
  CommandHelp help{concat(name, " ", words, " [options]"), verb.summary,
                   concat(name, " ", verb.example)};
  for (const Verb* each : verb.command->verbs)
    help.sections.push_back(concat(verb.command->name, " ", each->name));
  if (!parse_command_line(help, description, arguments, "words")) return false;
  const std::size_t least = split(words, ' ').size();
  const bool open_end = words.ends_with("…");
  if (options.words.size() < least || (!open_end && options.words.size() > least))
    throw ConfigError(
        concat(plural(options.words.size(), "word"), " where ", open_end ? "at least " : "", least,
               least == 1 && !open_end ? " was" : " were", " expected. Usage: ", help.usage));
  return true;
}

int run_verb(const Command& command, const std::vector<std::string>& arguments) {
  if (arguments.empty() || arguments[0] == "--help" || arguments[0] == "-h") {
    print_help(command);
    return static_cast<int>(arguments.empty() ? ExitCode::kUsage : ExitCode::kDone);
  }
  std::vector<std::string> names;
  for (const Verb* verb : command.verbs) {
    if (arguments[0] == verb->name)
      return verb->run(*verb, {arguments.begin() + 1, arguments.end()});
    names.push_back(verb->name);
  }
  throw ConfigError(
      concat("unknown verb '", arguments[0], "'; there are ", known_words(names, arguments[0])));
}

}  // namespace coldframe
