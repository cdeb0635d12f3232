// A cache of two exams that tests of later runs begin with.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "cache/maintain/update_metadata.h"
#include "common/cli/error.h"
#include "common/cli/log.h"
#include "common/text/text.h"
#include "extract/pipeline/pipeline.h"
#include "extract/plan/recipe.h"
#include "extract/plan/resume/resume.h"
#include "tests/extract/support.h"

namespace coldframe::extract {

class Resume : public ::testing::Test {
 protected:
  testing::TemporaryFolder scratch;
  MeanBackbone backbone;
  frames::ExamList input;

  void SetUp() override {
    set_quiet(true);
    for (int i = 0; i < 4; ++i) write_grey_image(scratch / concat(i, ".png"), 10 * i);
    manifest("A,0.png,0,p1,x\nA,1.png,5,p1,x\nB,2.png,0,p2,y\nB,3.png,7,p2,y\n");
    extract();
  }

  void extract(const frames::FrameSelection& selection = {}, bool rename = false,
               bool replace = false) {
    auto options = small_options();
    options.selection = selection;
    std::optional<cache::CacheReader> cached;
    if (!location().files().empty()) cached.emplace(location().path);
    const Plan plan =
        plan_extraction(input, {selection, {}, rename, replace}, cached ? &*cached : nullptr);
    cached.reset();
    cache::rename_exams(location(), plan.renamed, plan.removed);
    cache::update_metadata(location(), plan.metadata);
    cache::ShardWriter writer(location(), make_recipe(options, backbone), 2, {});
    const ComputeDevice cpu{torch::kCPU, &backbone};
    run_pipeline(input, plan.extract, options, std::span(&cpu, 1), writer);
    writer.finish();
  }
  cache::Location location() { return cache::locate(scratch / "out.cache"); }
  void manifest(const std::string& rows) {
    write_text(scratch / "exams.csv", "exam,path,time,patient,label\n" + rows);
    frames::ExamListOptions options;
    options.reader.keep_patient_id = true;
    input = frames::list_exams(scratch / "exams.csv", options);
  }
  Plan plan(const PlanOptions& options = {}) {
    const cache::CacheReader cached(scratch / "out.cache");
    return plan_extraction(input, options, &cached);
  }
  // The exams of a cache: id, patient, and the grey level of its first frame.
  std::vector<std::string> cached_exams() {
    const cache::CacheReader cached(scratch / "out.cache");
    std::vector<std::string> exams;
    for (std::size_t i = 0; i < cached.exams().size(); ++i)
      exams.push_back(concat(cached.exams()[i].id, " ", cached.exams()[i].patient, " ",
                             std::lround(cached.features(i)[0] * 255)));
    return exams;
  }
};

}  // namespace coldframe::extract
