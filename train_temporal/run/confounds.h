// What is known of a cohort's exams besides their images, and how well it predicts the labels.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "train_temporal/evaluate/confounds.h"
#include "train_temporal/run/cohort.h"
#include "train_temporal/run/options.h"

namespace coldframe::temporal {

// find_confounds() for a target and the labelled ones of `used` (by index): every column of the
// cache and of --labels but targets, covariates, ids and parts, and of the files the kind of
// source, frame size, number of frames, time between them, start, date and the number of the
// patient's exams. Columns of --labels whose rows differ within an exam are left out, and nothing
// is looked at for times to an event and labels per frame. An error is a warning in the log, with
// no result: the models are trained by then.
Confounds confounds_of(const Cohort& cohort, std::size_t target,
                       const std::vector<std::size_t>& used, const TrainOptions& options,
                       double level);

// "3 patients have exams of several classes of 'label', such as …", with up to three patients and
// their exams, for the log: reports hold no ids of patients. Empty if there are none.
std::string tell_several_classes(const Cohort& cohort, const Labels& labels);

// The number of patients of whom several of `used` (by index) have different classes.
std::size_t patients_of_several_classes(const Cohort& cohort, const Labels& labels,
                                        const std::vector<std::size_t>& used);

}  // namespace coldframe::temporal
