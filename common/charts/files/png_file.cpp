#include "common/charts/files/for_paper.h"

#include <spawn.h>
#include <sys/wait.h>

#include <cerrno>
#include <cstring>

#include "common/text/text.h"

extern char** environ;

namespace coldframe::html {

std::string draw_png(const std::filesystem::path& svg, const std::filesystem::path& png) {
  std::string words[] = {"rsvg-convert", "--zoom=4", concat("--output=", png.string()),
                         std::filesystem::absolute(svg).string()};
  char* arguments[] = {words[0].data(), words[1].data(), words[2].data(), words[3].data(), nullptr};
  pid_t child = 0;
  const int error = posix_spawnp(&child, arguments[0], nullptr, nullptr, arguments, environ);
  if (error == ENOENT) return "the program rsvg-convert (Debian: librsvg2-bin) is not installed";
  if (error != 0) return concat("rsvg-convert cannot be started: ", std::strerror(error));
  int status = 0;
  while (waitpid(child, &status, 0) < 0)
    if (errno != EINTR) return concat("rsvg-convert is lost: ", std::strerror(errno));
  if (WIFEXITED(status) && WEXITSTATUS(status) == 0) return {};
  return concat("rsvg-convert cannot draw '", svg.string(), "'");
}

}  // namespace coldframe::html
