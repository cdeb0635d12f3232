// coldframe-cache VERB PATH: looks into a cache. Links neither LibTorch nor OpenCV, so that it
// starts in milliseconds.
#include "cache/tool/command.h"

int main(int argc, char** argv) {
  return coldframe::run_main(argc, argv, [](const std::vector<std::string>& arguments) {
    return coldframe::run_verb(coldframe::cache::tool::kCache, arguments);
  });
}
