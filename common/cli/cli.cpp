#include "common/cli/cli.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <unistd.h>
#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <iostream>
#include <mutex>
#include <new>
#include <sstream>
#include <streambuf>
#include <string>
#include <typeinfo>

#include "common/cli/dispatch/commands.h"
#include "common/cli/error.h"
#include "common/cli/interrupt.h"
#include "common/cli/log.h"
#include "common/files/file.h"
#include "common/files/retry_policy.h"
#include "common/system/resources.h"
#include "common/text/text.h"

namespace coldframe {

namespace {

constexpr std::size_t kBuffered = 1 << 16;  // bytes

// Threads may write at the same time, as they may to the buffers that C++ begins with. What is
// written waits where a pipe or a terminal is full, whether its descriptor blocks or not.
class PrintableBuffer : public std::streambuf {
 public:
  PrintableBuffer(int descriptor, int& error)
      : descriptor_(descriptor), error_(error), at_once_(::isatty(descriptor) == 1) {}

 protected:
  std::streamsize xsputn(const char* text, std::streamsize size) override {
    const std::lock_guard lock(mutex_);
    waiting_.append(text, static_cast<std::size_t>(size));
    make_printable(whole_code_points(waiting_));
    const bool full = shown_.size() >= kBuffered || (at_once_ && shown_.ends_with('\n'));
    return !full || write() ? size : 0;
  }

  int_type overflow(int_type next) override {
    const char letter = traits_type::to_char_type(next);
    const bool passed = traits_type::eq_int_type(next, traits_type::eof()) || xsputn(&letter, 1);
    return passed ? traits_type::not_eof(next) : traits_type::eof();
  }

  int sync() override {
    const std::lock_guard lock(mutex_);
    make_printable(waiting_.size());
    return write() ? 0 : -1;
  }

 private:
  void make_printable(std::size_t bytes) {
    shown_ += printable(std::string_view(waiting_).substr(0, bytes), Lines::kMany);
    waiting_.erase(0, bytes);
  }

  // What failed once is not tried again: its reader has left, or the disk is full.
  bool write() {
    if (error_ == 0 && !write_all(descriptor_, shown_.data(), shown_.size())) error_ = errno;
    shown_.clear();
    return error_ == 0;
  }

  const int descriptor_;
  int& error_;
  const bool at_once_;
  std::mutex mutex_;
  std::string waiting_;  // the beginning of a code point whose other bytes come later
  std::string shown_;    // printable, and not written yet
};

int output_fault = 0, message_fault = 0;

}  // namespace

// The streams are flushed after the last destructor has run, hence none of the buffers.
void make_output_printable() {
  [[maybe_unused]] static const bool done = [] {
    std::cout.rdbuf(new PrintableBuffer(STDOUT_FILENO, output_fault));
    std::cerr.rdbuf(new PrintableBuffer(STDERR_FILENO, message_fault));
    return true;
  }();
}

int output_error() {
  return output_fault;
}

bool write_all(int descriptor, const char* bytes, std::size_t size) {
  while (size > 0) {
    const ssize_t count = ::write(descriptor, bytes, size);
    if (count > 0) {
      bytes += count;
      size -= static_cast<std::size_t>(count);
      continue;
    }
    pollfd full = {descriptor, POLLOUT, 0};
    if (count == 0) errno = EIO;
    if (count < 0 && errno == EAGAIN && (::poll(&full, 1, -1) > 0 || errno == EINTR)) continue;
    if (count == 0 || errno != EINTR) return false;
  }
  return true;
}

namespace {

namespace po = boost::program_options;

constexpr std::uint64_t kMaxConfigBytes = 1 << 20;

std::vector<std::string> long_names(const po::options_description& options) {
  std::vector<std::string> names;
  for (const auto& option : options.options()) names.push_back(option->long_name());
  return names;
}

std::string without_dashes(std::string name) {
  name.erase(0, name.find_first_not_of('-'));
  return name.substr(0, name.find('='));
}

// "folds" of "n-folds".
std::string last_word_among(const std::string& name, const std::vector<std::string>& names) {
  const std::vector<std::string> words = split(name, '-');
  const auto found = std::find_first_of(words.rbegin(), words.rend(), names.begin(), names.end());
  return found != words.rend() ? *found : "";
}

[[noreturn]] void refuse_unknown(const std::string& name, const std::string& prefix,
                                 const po::options_description& options) {
  const std::vector<std::string> names = long_names(options);
  std::string near = nearest(name, names);
  if (near.empty()) near = last_word_among(name, names);
  const std::string quote =
      prefix.substr(prefix.find('\''));  // "'--" before an option, "'" before a key
  throw ConfigError(
      concat("unknown ", prefix, name, "'",
             near.empty() ? std::string() : concat("; did you mean ", quote, near, "'?"),
             near.empty() ? "; --help lists the options" : ""));
}

template <typename... Types>
bool holds(const std::type_info& type) {
  return ((type == typeid(Types) || type == typeid(std::vector<Types>)) || ...);
}

// Boost reads "-1" as 4294967295 into an unsigned option, and "nan" into a number that every later
// comparison lets through.
void check_numbers(const po::option& given, const po::options_description& options) {
  const auto* description = options.find_nothrow(given.string_key, false);
  if (!description) return;
  const auto* typed = dynamic_cast<const po::typed_value_base*>(description->semantic().get());
  if (!typed) return;
  const std::type_info& type = typed->value_type();
  for (const std::string& word : given.value) {
    if (holds<unsigned, unsigned long, unsigned long long, unsigned short>(type) &&
        trim(word).starts_with('-')) {
      throw ConfigError(
          concat("--", given.string_key, ": '", word, "' is negative; expected 0 or more"));
    }
    double number = 0.0;
    if (holds<double, float>(type) && parse_double(word, number) && !std::isfinite(number)) {
      throw ConfigError(concat("--", given.string_key, ": '", word, "' is not a finite number"));
    }
  }
}

// "-0.5" is a number where Boost would see the short option -0.
std::vector<po::option> take_negative_number(std::vector<std::string>& words) {
  double number = 0.0;
  if (!words.front().starts_with('-') || !parse_double(words.front(), number)) return {};
  po::option given;
  given.value = given.original_tokens = {words.front()};
  words.erase(words.begin());
  return {given};
}

po::parsed_options parse_words(const po::options_description& options,
                               const std::vector<std::string>& arguments,
                               const std::string& positional) {
  po::positional_options_description bare_words;
  if (!positional.empty()) bare_words.add(positional.c_str(), -1);
  po::command_line_parser parser(arguments);
  // An abbreviation that works today would change its meaning with the next option.
  parser.options(options).style(po::command_line_style::unix_style &
                                ~po::command_line_style::allow_guessing);
  parser.extra_style_parser(take_negative_number);
  if (!positional.empty()) parser.positional(bare_words);
  try {
    po::parsed_options parsed = parser.run();
    for (const po::option& given : parsed.options) {
      if (given.string_key.empty()) {
        throw ConfigError(concat("unexpected argument '", join(given.original_tokens, " "),
                                 "'; options start with '--', see --help"));
      }
      check_numbers(given, options);
    }
    return parsed;
  } catch (const po::unknown_option& error) {
    refuse_unknown(without_dashes(error.get_option_name()), "option '--", options);
  }
}

// "cache ls" of "coldframe cache ls CACHE [options]".
std::string command_of(const CommandHelp& help) {
  std::vector<std::string> words = split(help.usage, ' ');
  words.erase(words.begin());
  const auto is_placeholder = [](const std::string& word) {
    return word.find_first_not_of("abcdefghijklmnopqrstuvwxyz-") != std::string::npos ||
           word.starts_with('-');
  };
  words.erase(std::ranges::find_if(words, is_placeholder), words.end());
  return join(words, " ");
}

std::string first_word(const std::string& text) {
  return text.substr(0, text.find(' '));
}

// Of other commands' sections the command alone is known here: each program has its own verbs.
void require_command(const std::string& section, const std::vector<std::string>& own) {
  const std::string command = first_word(own.front());
  std::vector<std::string> others;
  for (const CommandRow& row : kCommands)
    if (row.name != command) others.emplace_back(row.name);
  const auto among = [](const std::vector<std::string>& names, const std::string& name) {
    return std::ranges::find(names, name) != names.end();
  };
  if (among(own, section) || among(others, first_word(section))) return;
  const std::string whole = nearest(section, own), near = nearest(first_word(section), others);
  const std::string near_word = section == first_word(section) ? concat("[", near, "]") : near;
  others.insert(others.end(), own.begin(), own.end());
  throw ConfigError(concat("section '[", section, "]' is of no command; ",
                           !whole.empty()  ? concat("did you mean '[", whole, "]'?")
                           : !near.empty() ? concat("did you mean '", near_word, "'?")
                                           : concat("expected one of ", join(others, ", "))));
}

// The lines that `command` reads: those of its section, and above all sections those of other
// options.
std::vector<po::option> lines_for(const CommandHelp& help, const std::vector<po::option>& lines) {
  const std::string command = command_of(help);
  const auto sections = help.sections.empty() ? std::vector{command} : help.sections;
  std::vector<po::option> general, own;
  for (po::option line : lines) {
    const std::size_t dot = line.string_key.rfind('.');  // options have no dot in their names
    if (dot == std::string::npos) {
      general.push_back(line);
      continue;
    }
    const std::string section = trim(line.string_key.substr(0, dot));
    require_command(section, sections);
    line.string_key.erase(0, dot + 1);
    if (section == command) own.push_back(line);
  }
  std::erase_if(general, [&](const po::option& line) {
    return std::ranges::find(own, line.string_key, &po::option::string_key) != own.end();
  });
  general.insert(general.end(), own.begin(), own.end());
  return general;
}

po::parsed_options parse_config(const po::options_description& options, const CommandHelp& help,
                                const std::string& path) {
  std::istringstream text(read_text_file(path, kMaxConfigBytes));
  po::parsed_options parsed = po::parse_config_file(text, options, true);
  parsed.options = lines_for(help, parsed.options);
  for (po::option& given : parsed.options) {
    const auto* description = options.find_nothrow(given.string_key, false);
    if (!description || given.string_key == "config" || given.string_key == "help" ||
        given.string_key == "version") {
      refuse_unknown(given.string_key, "key '", options);
    }
    // `mean = 0.5 0.5 0.5` means the same as on the command line; quotes hold words together.
    if (description->semantic()->max_tokens() > 1 && !given.value.empty()) {
      given.value = po::split_unix(given.value.front());
    }
    given.unregistered = false;
    check_numbers(given, options);
  }
  return parsed;
}

GivenOptions given_options(const po::variables_map& values) {
  GivenOptions given;
  for (const auto& [name, value] : values) {
    const auto* is_on = boost::any_cast<bool>(&value.value());
    if (!value.defaulted() && (is_on == nullptr || *is_on)) given.insert(name);
  }
  return given;
}

void print_help(const CommandHelp& help, const po::options_description& options) {
  std::ostringstream list;
  list << options;
  const std::string text = list.str();  // Boost begins groups without a caption by empty lines
  std::cout << "Usage: " << help.usage << "\n\n"
            << help.summary << "\n\n"
            << text.substr(std::min(text.find_first_not_of('\n'), text.size()));
  if (!help.example.empty()) std::cout << "\nExample:\n  " << help.example << "\n";
}

void print_version() {
  std::cout << "coldframe " << kVersion << "\n";
}

// Descriptors 0 to 2 that the caller closed would be given to the next files opened, and messages
// would be written into data.
void open_standard_streams() {
  for (const int descriptor : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) {
    if (::fcntl(descriptor, F_GETFD) < 0) {
      [[maybe_unused]] const int opened = ::open("/dev/null", O_RDWR);
    }
  }
}

// All output must have arrived: a full disk is an error, a reader that left (`| head`) is not.
int finish_output(int code) {
  errno = 0;
  std::fflush(stdout);  // of libraries
  int error = errno;
  std::cout.flush();
  if (output_error() != 0) error = output_error();
  if (std::cout && !std::ferror(stdout)) return code;
  pollfd output = {STDOUT_FILENO, POLLOUT, 0};
  if (error == EPIPE || (::poll(&output, 1, 0) == 1 && (output.revents & POLLERR))) return code;
  log_error(
      concat("cannot write the output: ", error ? std::strerror(error) : "the disk may be full"));
  return static_cast<int>(ExitCode::kFatal);
}

std::string first_line(const char* text) {
  const std::string_view whole(text);
  return std::string(whole.substr(0, whole.find('\n')));
}

int report(ExitCode code, const std::string& message) {
  if (code == ExitCode::kInterrupted) {
    log_warning(message);
  } else {
    log_error(message);
  }
  return static_cast<int>(code);
}

int guarded(const std::function<int(const std::vector<std::string>&)>& body,
            const std::vector<std::string>& arguments) {
  try {
    return body(arguments);
  } catch (const Error& error) {
    return report(error.exit_code(), error.what());
  } catch (const std::bad_alloc&) {
    return report(
        ExitCode::kFatal,
        "out of memory; lower --batch, --jobs or --memory-budget, or stop other programs, "
        "then run the same command again");
  } catch (const std::exception& error) {
    return report(ExitCode::kFatal, first_line(error.what()));  // LibTorch adds a stack trace
  } catch (...) {
    return report(ExitCode::kFatal, "an unknown error ended the program");
  }
}

}  // namespace

namespace {

po::options_description most_used(const CommandHelp& help, const po::options_description& all) {
  po::options_description some("Most used options");
  for (const auto& option : all.options())
    if (std::ranges::find(help.most_used, option->long_name()) != help.most_used.end())
      some.add(option);
  return some;
}

}  // namespace

bool parse_command_line(const CommandHelp& help, po::options_description options,
                        const std::vector<std::string>& arguments, const std::string& positional,
                        GivenOptions* given) {
  bool quiet = false;
  std::string config;
  po::options_description general("General");
  general.add_options()("help,h", "show this help")(
      "help-all", concat("show all ", options.options().size(), " options").c_str())(
      "version", "show the version")(
      "config", po::value(&config)->value_name("FILE"),
      "read options from an INI file: one "
      "'option = value' a line, those of a section [train] for that command alone; the command "
      "line wins")("quiet,q", po::bool_switch(&quiet),
                   "no progress, and of messages only "
                   "warnings and errors; results are printed");
  po::options_description all;
  all.add(options).add(general);
  std::string where;
  try {
    po::variables_map values;
    po::store(parse_words(all, arguments, positional), values);
    if (values.count("help-all") || (values.count("help") && help.most_used.empty())) {
      print_help(help, all);
      return false;
    }
    if (values.count("help")) {
      print_help(help, most_used(help, options).add(general));
      return false;
    }
    if (values.count("version")) {
      print_version();
      return false;
    }
    if (values.count("config")) {
      const auto path = values["config"].as<std::string>();
      where = concat("config file '", path, "': ");
      po::store(parse_config(all, help, path), values);
      where.clear();
    }
    po::notify(values);
    if (given != nullptr) *given = given_options(values);
  } catch (const po::error& error) {
    throw ConfigError(concat(where, error.what(), "; see --help"));
  } catch (const ConfigError& error) {
    throw ConfigError(concat(where, error.what()));
  } catch (const DataError& error) {
    throw ConfigError(error.what());  // the config file could not be read
  }
  set_quiet(quiet);
  return true;
}

std::size_t choice(const std::string& option, const std::string& word,
                   const std::vector<std::string>& allowed) {
  const auto found = std::find(allowed.begin(), allowed.end(), word);
  if (found != allowed.end()) return static_cast<std::size_t>(found - allowed.begin());
  throw ConfigError(concat("--", option, ": '", word, "' is not one of: ", join(allowed, ", ")));
}

int run_main(int argc, char** argv,
             const std::function<int(const std::vector<std::string>&)>& body) {
  open_standard_streams();
  make_output_printable();
  leave_at_stop_signals_if_first();
  release_stop_signals();
  // A reader that leaves and a limit on file sizes are reported by write(), not by a death.
  ::signal(SIGPIPE, SIG_IGN);
  ::signal(SIGXFSZ, SIG_IGN);
  raise_limit_of_open_files();
  set_patience(kUsualPatience);
  const std::vector<std::string> arguments(argv + std::min(argc, 1), argv + argc);
  if (!arguments.empty() && arguments.front() == "--version") {
    print_version();
    return finish_output(static_cast<int>(ExitCode::kDone));
  }
  const int code = finish_output(guarded(body, arguments));
  if (leaves_without_destructors) ::_exit(code);
  return code;
}

}  // namespace coldframe
