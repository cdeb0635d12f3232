// The flow of participants as CONSORT draws it: boxes with numbers.
#pragma once

#include <string>
#include <vector>

namespace coldframe::html {

struct FlowChart {
  using Box = std::vector<std::string>;  // lines

  std::string title;
  Box found, left_out, kept;
  std::vector<Box> arms = {};  // that `kept` is divided into; none: it is the end
  std::string division = {};   // is written beside the arrows to these
};
// An <svg>, styled by Page. Lines that are too long for their box are cut.
std::string flow_chart(const FlowChart& flow);

}  // namespace coldframe::html
