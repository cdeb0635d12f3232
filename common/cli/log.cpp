#include "common/cli/log.h"

#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <mutex>
#include <set>
#include <string>

#include "common/cli/cli.h"
#include "common/text/table.h"
#include "common/text/text.h"

namespace coldframe {

namespace {

constexpr std::size_t kMaxMessage = 8000;  // letters; a table's field may have millions

std::atomic<bool> quiet{false};

// One write per message, so that lines of several threads never mix. A progress line that stands on
// the terminal is cleared first; it comes back with its next update.
void write_line(std::string_view prefix, std::string_view colour, std::string_view message) {
  static std::mutex mutex;
  std::string line;
  if (stderr_is_terminal()) line += "\r\x1b[K";
  if (!colour.empty() && stderr_has_colour()) {
    line.append(colour).append(prefix).append("\x1b[0m");
  } else {
    line += prefix;
  }
  line.append(without_middle(printable(message, Lines::kMany), kMaxMessage)).append("\n");
  const std::lock_guard lock(mutex);
  write_all(STDERR_FILENO, line.data(), line.size());  // nobody is left to be told of a failure
}

}  // namespace

void log_info(std::string_view message) {
  if (!quiet) write_line("", "", message);
}

void log_info_once(const std::string& message) {
  static std::mutex mutex;
  static std::set<std::string> said;
  const std::lock_guard lock(mutex);
  if (said.insert(message).second) log_info(message);
}

void log_warning(std::string_view message) {
  write_line("warning: ", "\x1b[33m", message);
}

void log_error(std::string_view message) {
  write_line("error: ", "\x1b[31m", message);
}

void set_quiet(bool value) {
  quiet = value;
}

bool is_quiet() {
  return quiet;
}

bool stderr_is_terminal() {
  const char* term = std::getenv("TERM");
  return ::isatty(STDERR_FILENO) == 1 && !(term && std::string_view(term) == "dumb");
}

bool stderr_has_colour() {
  const char* no_colour = std::getenv("NO_COLOR");  // no-color.org: present and not empty
  return stderr_is_terminal() && !(no_colour && *no_colour);
}

}  // namespace coldframe
