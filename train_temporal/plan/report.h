// A plan as text, as JSON, and as a page.
#pragma once

#include <optional>
#include <ostream>
#include <string>
#include <vector>

#include "common/files/json.h"
#include "train_temporal/plan/measure.h"

namespace coldframe::plan {

struct Answer {
  std::uint64_t memory = 0;
  Trained trained;
  Row plain;                   // all frames at once, everything kept
  std::optional<Row> fastest;  // that fits
  std::vector<Change> changes;
};

struct Plan {
  Query query;
  std::vector<Row> rows;
  std::optional<Answer> answer;
  std::optional<Measured> measured;
  std::int64_t epoch_exams = 0;  // of an epoch whose time is told, where something was measured
};

void write_text(const Plan& plan, std::ostream& out);
Json to_json(const Plan& plan);
std::string to_page(const Plan& plan);

// "0.332" of the step that trains everything and keeps everything.
std::string relative_time(const Plan& plan, const Row& row);
// "1.5 h" of an epoch by this row; empty where nothing was measured.
std::string epoch_time(const Plan& plan, const Row& row);

}  // namespace coldframe::plan
