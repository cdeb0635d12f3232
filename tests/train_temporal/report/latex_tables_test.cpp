#include "train_temporal/report/report_files.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "common/charts/data_table.h"
#include "common/charts/html.h"

namespace coldframe::temporal {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

TEST(LatexTables, SayWhatThePageSays) {
  html::Page page("Report");
  page.section("R² & more", html::table({"", "AUROC [95 %]"}, {{"a_b {x} <1>", "0.9 [0.8, 1]"},
                                                               {"[a\\b\nc", "-0.1 [−2, 1-2]"}}));
  page.section("No table", "<p>text</p>");
  page.section("Empty", html::table({"one"}, {}));
  page.section("Stacked", html::table({"a", "b", "c"}, {{"1", "2", "3"}}) + html::note("* few") +
                              html::paragraph("text") + html::table({"d"}, {{"*4"}}) +
                              html::note("† no & none"));
  html::DataTable exams("exams", "exam", {"E1"});
  exams.add_numbers("oddness", {1}, 0);
  page.section("Every exam", exams.html("oddness"));
  const std::string latex = latex_tables(page);
  EXPECT_THAT(latex, AllOf(HasSubstr("\\label{tab:4}"), Not(HasSubstr("\\label{tab:5}"))));
  EXPECT_THAT(latex, HasSubstr("\\caption{R\\textsuperscript{2} \\& more}\n\\label{tab:1}"));
  EXPECT_THAT(latex, HasSubstr("   & AUROC [95 \\%] \\\\\n"));
  EXPECT_THAT(latex,
              HasSubstr("  a\\_b \\{x\\} \\textless{}1\\textgreater{} & 0.9 [0.8, 1] \\\\\n"));
  EXPECT_THAT(latex, HasSubstr("  {}[a\\textbackslash{}b c & $-$0.1 [$-$2, 1-2] \\\\\n"));
  EXPECT_THAT(latex, HasSubstr("\\toprule\n  one \\\\\n  \\midrule\n  \\bottomrule"));
  EXPECT_THAT(latex,
              HasSubstr("{rrr}\n  \\toprule\n  a & b & c \\\\\n  \\midrule\n  1 & 2 & 3 \\\\\n"));
  EXPECT_THAT(latex, HasSubstr("\\end{tabular}}\n\\par\\footnotesize * few\n\\end{table}"));
  EXPECT_EQ(latex.find("few"), latex.rfind("few")) << "a note belongs to the table above it";
  EXPECT_THAT(latex, HasSubstr("  {}*4 \\\\\n"));
  EXPECT_THAT(latex, HasSubstr("† no \\& none\n\\end{table}"));
  EXPECT_EQ(latex.find("E1"), std::string::npos);
}

}  // namespace
}  // namespace coldframe::temporal
