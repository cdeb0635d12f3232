// All sections, in the order of the page.
#include "train_temporal/report/sections/sections.h"

#include "train_temporal/report/sections/section.h"

namespace coldframe::temporal {
namespace {

constexpr const Section* kFigures[] = {
    &kResultSection,         &kWarningsSection,           &kModelsSection,
    &kSurvivalByRiskSection, &kSurvivalAtHorizonsSection, &kScatterSection,
    &kRankingSection,        &kDecisionsSection,          &kThresholdSection,
    &kCalibrationSection,    &kOperatingPointsSection,    &kDeLongSection,
    &kDecisionCurveSection,  &kSubgroupsSection};
constexpr const Section* kOfTheModel[] = {&kContributionsSection, &kGallerySection, &kShiftSection,
                                          &kSearchSection, &kTrainingSection};
constexpr const Section* kOfTheData[] = {&kDataSection, &kSplitsSection, &kFlowSection,
                                         &kCharacteristicsSection};
constexpr const Section* kOfTheRun[] = {&kCovariatesSection, &kConfigurationSection,
                                        &kFeaturesSection, &kResourcesSection};
constexpr SectionBlock kBlocks[] = {
    {true, kFigures}, {false, kOfTheModel}, {true, kOfTheData}, {false, kOfTheRun}};

}  // namespace

std::span<const SectionBlock> section_blocks() {
  return kBlocks;
}

}  // namespace coldframe::temporal
