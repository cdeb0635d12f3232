// Numbers as the drivers of the metrics' cross-checks read and print them.
#pragma once

#include <cmath>
#include <string>

#include "common/files/json.h"
#include "common/text/text.h"
#include "train_temporal/evaluate/metrics.h"

namespace coldframe::temporal {

inline double number(const std::string& text) {
  double value = std::nan("");
  parse_double(text, value);
  return value;
}

// Its value, or why there is none.
inline Json to_json(const MetricValue& figure) {
  return figure.defined() ? Json(figure.value) : Json(figure.undefined);
}

}  // namespace coldframe::temporal
