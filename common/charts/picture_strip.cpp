#include <algorithm>
#include <cmath>
#include <span>

#include "common/charts/svg.h"
#include "common/text/text.h"

namespace coldframe::html {

namespace {

constexpr double kNarrowestPicture = 32;  // pixels
constexpr std::string_view kPngStart = "\x89PNG";

std::string percent(double share) {
  return fixed(100 * share, 3) + "%";
}

}  // namespace

// One of several columns has a picture that is as wide as they are together, where columns are
// narrower than a picture can be: that of the middle one, if it has one, else of the first that
// has.
std::string picture_strip(const std::vector<Picture>& pictures, double left, double right,
                          double width) {
  const auto n = static_cast<double>(pictures.size());
  const auto every =
      static_cast<std::size_t>(std::ceil(kNarrowestPicture * n / (width - left - right)));
  std::string html = concat("<div class=\"strip\" style=\"margin:0 ", percent(right / width), " 0 ",
                            percent(left / width), "\">\n");
  for (std::size_t first = 0; first < pictures.size(); first += every) {
    const std::size_t columns = std::min(every, pictures.size() - first);
    const auto group = std::span(pictures).subspan(first, columns);
    const auto any = std::find_if(group.begin(), group.end(),
                                  [](const Picture& each) { return !each.file.empty(); });
    const Picture& middle = group[columns / 2];
    const Picture& picture = middle.file.empty() && any != group.end() ? *any : middle;
    const std::string style =
        concat("style=\"width:", percent(static_cast<double>(columns) / n), "\"");
    html += picture.file.empty()
                ? concat("<span ", style, "></span>\n")
                : concat("<img ", style, " alt=\"", escape(picture.alt), "\" title=\"",
                         escape(picture.alt), "\" src=\"data:image/",
                         picture.file.starts_with(kPngStart) ? "png" : "jpeg", ";base64,",
                         to_base64(picture.file), "\"/>\n");
  }
  return html + "</div>\n";
}

}  // namespace coldframe::html
