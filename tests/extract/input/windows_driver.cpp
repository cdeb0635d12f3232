// Prints the windows over exams, for tests that write the rule anew in numpy. Each line of stdin is
// an exam:
//   {"times": [0, 0.1, null, …], "streams": [0, 0, 1, …], "selected": [0, 1, …], "steps": 1,
//    "rule": {"frames": 16, "every": 4, "fps": 0, "step": 16, "step_s": 0, "count": 0,
//             "pad": "wrap", "sampling": "every", "gap_s": null}}
// and each line of stdout {"windows": [{"slots": […], "padded": 0}, …], "rows": [[window, step,
// first, middle, last, padded], …]} or {"error": "…"}.
#include <cmath>
#include <iostream>
#include <string>

#include "common/cli/cli.h"
#include "common/cli/error.h"
#include "common/files/json.h"
#include "common/text/spelling.h"
#include "extract/input/frame_windows.h"

namespace {

using namespace coldframe;

frames::WindowRule rule_of(const Json& json) {
  frames::WindowRule rule;
  rule.frames = json.at("frames");
  rule.every = json.at("every");
  rule.fps = json.at("fps");
  rule.step = json.at("step");
  rule.step_s = json.at("step_s");
  rule.count = json.at("count");
  rule.pad = choice("pad", json.at("pad").get<std::string>(), frames::kWindowPads);
  rule.sampling =
      choice("sampling", json.at("sampling").get<std::string>(), frames::kWindowSamplings);
  if (!json.at("gap_s").is_null()) rule.gap_s = json.at("gap_s");
  return rule;
}

Json windows(const Json& exam) {
  std::vector<double> times;
  for (const Json& time : exam.at("times"))
    times.push_back(time.is_null() ? std::nan("") : time.get<double>());
  const auto selected = exam.at("selected").get<std::vector<std::int64_t>>();
  const auto streams = exam.at("streams").get<std::vector<std::size_t>>();
  Json json{{"windows", Json::array()}, {"rows", Json::array()}};
  const auto found = frames::windows_over(selected, times, streams, rule_of(exam.at("rule")));
  for (const frames::FrameWindow& window : found)
    json["windows"].push_back({{"slots", window.slots}, {"padded", window.padded}});
  for (const frames::WindowRow& row : frames::rows_of(found, exam.at("steps")))
    json["rows"].push_back({row.window, row.step, row.first, row.middle, row.last, row.padded});
  return json;
}

}  // namespace

int main() {
  for (std::string line; std::getline(std::cin, line);) try {
      std::cout << windows(Json::parse(line)).dump() << "\n";
    } catch (const DataError& error) {
      std::cout << Json{{"error", error.what()}}.dump() << "\n";
    }
}
