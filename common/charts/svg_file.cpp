#include "common/charts/svg_file.h"
#include "common/charts/drawing_style.h"
#include "common/text/text.h"

namespace coldframe::html {

std::string svg_file(const std::string& drawing) {
  const std::string own = concat("\n<style>\n", file_style_of_drawings(), "</style>\n",
                                 "<rect width=\"100%\" height=\"100%\" fill=\"#ffffff\"/>");
  return std::string(drawing).insert(drawing.find('>') + 1, own);
}

}  // namespace coldframe::html
