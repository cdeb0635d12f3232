#include "train_temporal/report/report_files.h"

#include <gtest/gtest.h>

namespace coldframe::temporal {
namespace {

TEST(ReportFiles, AreKnownByTheirNames) {
  for (const char* own : {"roc.svg", "2-roc.svg", "survival.svg", "12-scores.svg", "figures.csv",
                          "2-flow.csv", "tables.tex", "precision_recall.svg"})
    EXPECT_TRUE(is_report_file(own)) << own;
  for (const char* other :
       {"roc", "roc_by_hand.svg", "roc.csv", "figures.svg", "+1-flow.svg", "flow-2.svg", "roc.png",
        "roc-1.svg", "-flow.svg", "flow-.svg", "x-roc.svg", "roc-1-2.svg", "2-tables.tex",
        "roc.svg.bak", "flow-1.csv", "", "."})
    EXPECT_FALSE(is_report_file(other)) << other;
}

}  // namespace
}  // namespace coldframe::temporal
