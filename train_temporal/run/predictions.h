// Predictions as one table, from the fits to the report: rows are exams or their frames, and each
// target has its labels, scores and decisions of all rows. predictions.csv is this table.
#pragma once

#include <filesystem>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "cache/format/exam.h"
#include "train_temporal/evaluate/intervals.h"
#include "train_temporal/labels/labels.h"

namespace coldframe::temporal {

inline constexpr const char* kPredictions = "predictions.csv";

// The predictions of one model. Columns of the file: repeat,fold (if held out),exam,patient, frame
// (if per frame), then for each target `label` (if held out), p_<class> for its classes and
// `predicted`; a time to an event has `event` after `label`, and `risk` and survival_<horizon>
// instead of the rest. With several targets, these names are prefixed by the target's name and a
// colon. `more` columns come last.
struct PredictionTable {
  struct Exam {
    std::string id, patient;
    std::size_t patient_number = 0;
  };
  struct Row {
    std::size_t repeat = 0, fold = 0;
    std::size_t exam = 0;   // of `exams`
    std::size_t frame = 0;  // index among all frames of the exam, for per-frame targets
  };
  struct OfTarget {
    std::vector<double> label;           // [rows] as in TaskKind; NaN: none
    std::vector<double> scores;          // [rows, Target::scores()]
    std::vector<int> decision;           // [rows]
    std::vector<double> threshold = {};  // [rows] of the decision; not in the file
  };
  struct Column {
    std::string name;
    std::vector<double> values;  // [rows]; empty: unknown
  };

  bool held_out = true;  // the rows have labels, and belong to folds
  std::vector<Target> targets;
  std::vector<Exam> exams;
  std::vector<Row> rows;
  std::vector<OfTarget> of;  // each target
  std::vector<Column> more = {};

  bool per_frame() const { return targets.front().per_frame; }
  std::span<const double> scores(std::size_t target, std::size_t row) const {
    const std::size_t width = targets[target].scores();
    return std::span(of[target].scores).subspan(row * width, width);
  }
};

// A table without rows. `patients` and `patient_number`: of every exam; empty: as stated by the
// exams.
PredictionTable empty_table(const std::vector<Target>& targets,
                            std::span<const cache::ExamInfo> exams,
                            const std::vector<std::string>& patients = {},
                            const std::vector<std::size_t>& patient_number = {});

// Adds rows for `exams`: one each, or one per present frame; with labels if `labels` is not null.
void add_rows(PredictionTable& table, std::span<const cache::ExamInfo> all,
              const std::vector<std::size_t>& exams, const Targets* labels, std::size_t repeat = 0,
              std::size_t fold = 0);
// Adds scores, and decisions at `threshold`.
void add_scores(PredictionTable& table, std::size_t target, std::span<const double> scores,
                double threshold);

// Replaces a target's scores [rows, Target::scores()], and decides anew at the same thresholds.
PredictionTable rescored(PredictionTable table, std::size_t target, std::vector<double> scores);

// The rows in this order.
PredictionTable rows_at(const PredictionTable& table, std::span<const std::size_t> rows);

// The rows of each fold that have a label for the target, in the form that metrics take. `unit`,
// unless empty, has a number for every exam: rows with the same number become one, at the position
// of the first, with their mean scores.
std::vector<FoldScores> labelled_folds(const PredictionTable& table, std::size_t target,
                                       const std::vector<std::size_t>& unit = {});

// The file's rows, the header first.
std::vector<std::vector<std::string>> csv_rows(const PredictionTable& table);
std::string to_csv(const PredictionTable& table);
// Exams are numbered in the order of their ids. DataError.
PredictionTable read_predictions(const std::filesystem::path& csv, std::vector<Target> targets);

}  // namespace coldframe::temporal
