// A plan as text, as JSON, and as a page.
#pragma once

#include <optional>
#include <ostream>
#include <string>
#include <vector>

#include "common/files/json.h"
#include "common/text/table.h"
#include "train_temporal/plan/measure.h"

namespace coldframe::plan {

struct Answer {
  std::uint64_t memory = 0;
  Trained trained;
  Row plain;                   // all frames at once, each step once
  std::optional<Row> fastest;  // that fits
  std::vector<Change> changes;

  bool takes_plain() const {
    return fastest && fastest->exams == plain.exams && fastest->way == plain.way;
  }
};

struct Plan {
  Query query;
  std::vector<Row> rows;
  std::optional<Answer> answer;
  std::optional<Measured> measured;
  std::int64_t epoch_exams = 1000;  // of an epoch whose time is stated
};

// `all`: every way, where the answer and a row for each part that can be trained will do.
void write_text(const Plan& plan, bool all, std::ostream& out);
Json to_json(const Plan& plan);
std::string to_page(const Plan& plan);

// What text and page share. Tables begin with their header.
std::string heading(const Query& query);        // "16 exams × 20 frames of 224×224, fp32, CUDA"
std::string answer_sentence(const Plan& plan);  // plan.answer is there
TextRows change_table(const Plan& plan);        // likewise
TextRows overview_table(const Plan& plan);      // a row for each part that can be trained
TextRows share_table(const Plan& plan);         // of end to end: less memory, more time
TextRows way_table(const Plan& plan);           // MiB
TextRows card_table(const Plan& plan);          // exams in a step
TextRows peak_table(const Measured& measured);
std::string chunk_note(const Plan& plan);  // what names of schedules mean; "" where none needs it
// On which device the figures were measured, and what of a GPU is an estimate.
std::string device_note(const Plan& plan);
double mebibytes(std::uint64_t bytes);
std::string mebibytes_text(std::uint64_t bytes);  // "-" for none

// "0.332" of the step that trains everything and keeps everything.
std::string relative_time(const Plan& plan, const Row& row);
// "1.5 h" of an epoch by this row.
std::string epoch_time(const Plan& plan, const Row& row);

}  // namespace coldframe::plan
