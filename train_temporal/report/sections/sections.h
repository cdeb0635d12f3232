// The sections, each in the file of its kind, and what others need of them.
#pragma once

#include <string>
#include <vector>

#include "train_temporal/report/sections/section.h"

namespace coldframe::temporal {

extern const Section kResultSection, kWarningsSection, kModelsSection;
extern const Section kScatterSection, kRankingSection, kDecisionsSection, kCalibrationSection;
extern const Section kSurvivalByRiskSection, kSurvivalAtHorizonsSection;
extern const Section kOperatingPointsSection, kDeLongSection, kDecisionCurveSection;
extern const Section kThresholdSection, kGallerySection;
extern const Section kSubgroupsSection, kContributionsSection, kDataSection, kSplitsSection;
extern const Section kFlowSection, kCharacteristicsSection, kCovariatesSection;
extern const Section kSearchSection, kTrainingSection, kShiftSection;
extern const Section kConfigurationSection, kFeaturesSection, kResourcesSection;

// Fills the AUROCs by DeLong of all models; operating.cpp.
void add_delong(std::vector<ModelResult>& models, double level);
std::string covariate_names(const TargetReport& report);  // "age and sex"
// Where groups are held out one at a time: intervals know that groups differ; groups.cpp.
void know_that_groups_differ(TargetReport& report);
std::string groups_text(const TargetReport& report);  // "3 groups of 'site'"
std::vector<std::string> warn_of_groups(const TargetReport& report);
// The summaries that `summary` chose, "slope in 4 of 5 fits, mean in 1", and fold by fold;
// summaries.cpp.
std::string families_text(const ModelResult& model);
// Behind the figures of a control: "; it took slope in each fit"; "" of those without summaries.
std::string found_text(const ModelResult& model);
// Where a summary of the frames took the model's place in some fits: says so; else "".
std::string taken_text(const ModelResult& model);
std::string families_table(const TargetReport& report);

}  // namespace coldframe::temporal
