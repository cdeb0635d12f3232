// Messages for the person at the terminal, all on stderr: data goes to stdout, talk does not.
#pragma once

#include <string>
#include <string_view>

namespace coldframe {

void log_info(std::string_view message);         // silent after set_quiet(true)
void log_info_once(const std::string& message);  // as log_info(), each message once in a process
void log_warning(std::string_view message);      // "warning: …"
void log_error(std::string_view message);  // "error: …", red on a terminal unless NO_COLOR is set

void set_quiet(bool quiet);
bool is_quiet();

// True when stderr is a terminal that may be written over and coloured (NO_COLOR is honoured for
// colour).
bool stderr_is_terminal();
bool stderr_has_colour();

}  // namespace coldframe
