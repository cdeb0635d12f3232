// A plan as text, as JSON, and as a page.
#pragma once

#include <optional>
#include <ostream>
#include <string>
#include <vector>

#include "common/files/json.h"
#include "train_temporal/plan/plan.h"

namespace coldframe::plan {

// Figures measured on this machine, beside those predicted.
struct Measured {
  struct Peak {
    std::string schedule;
    std::uint64_t predicted = 0, measured = 0;  // bytes
    double predicted_seconds = 0, seconds = 0;
  };
  std::int64_t frames = 0;
  std::vector<std::string> names;
  std::vector<tune::StepCost> predicted, measured;  // of each step; seconds
  std::vector<Peak> peaks;
  double seconds_per_work = 0;  // of a machine that does as these steps did
};

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

// "1.5 h" of an epoch by this row; empty where nothing was measured.
std::string epoch_time(const Plan& plan, const Row& row);

}  // namespace coldframe::plan
