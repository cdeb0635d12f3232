// Labels of times to an event, from a column of times and one that says whether the event came.
#pragma once

#include <span>

#include "train_temporal/splits/labels.h"

namespace coldframe::temporal {

// `table`: of --labels; null: the cache alone. `options.horizons`: those asked for, or of a trained
// model; empty: the quartiles of the times of events. An exam without a time or without a word on
// the event is masked. ConfigError: no such column, a column of events that says neither 0 and 1
// nor no and yes while `options.positive` is empty, or not the trained model's word, a horizon that
// no exam is followed beyond. DataError: a time that is no number or below 0, two of one exam, no
// event to learn from.
Labels survival_labels(std::span<const cache::ExamInfo> exams, const CsvTable* table,
                       const LabelOptions& options);

}  // namespace coldframe::temporal
