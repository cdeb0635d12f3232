#include "common/system/monitor.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <functional>
#include <string>
#include <vector>

#include "common/cli/error.h"
#include "common/files/csv.h"
#include "common/system/resources.h"
#include "common/text/text.h"
#include "tests/support/temporary_folder.h"

namespace coldframe {
namespace {

using namespace std::chrono_literals;

// Works until something is so.
void burn_until(const std::function<bool()>& so) {
  volatile double x = 1;
  do
    for (int i = 0; i < 100000; ++i) x = x * 1.0000001;
  while (!so());
}

TEST(Monitor, WritesARowPerSampleAndSumsUp) {
  const testing::TemporaryFolder folder;
  const auto csv = folder / "monitor.csv";
  Monitor monitor({csv, {}, 20ms});
  const std::vector<char> touched(32 << 20, 1);
  burn_until([&] { return std::ranges::count(folder.read("monitor.csv"), '\n') >= 3; });
  const ResourceSummary summary = monitor.finish();

  const CsvTable table = read_csv(csv);
  ASSERT_GE(table.rows.size(), 3u);  // two below the heading, and the last sample
  double time = -1;
  for (const auto& row : table.rows) {
    double now = 0, resident = 0;
    ASSERT_TRUE(parse_double(row[0], now) && parse_double(row[1], resident));
    EXPECT_GE(now, time);  // the last sample may follow within the printed millisecond
    time = now;
    EXPECT_LE(resident, static_cast<double>(summary.peak_resident));
    EXPECT_EQ(row[4], "");
  }
  EXPECT_GT(summary.seconds, 0);
  EXPECT_GE(summary.peak_resident, touched.size());
  EXPECT_GT(summary.mean_cpu, 0);
  EXPECT_FALSE(summary.mean_gpu);
  EXPECT_EQ(monitor.finish().seconds, summary.seconds);
  EXPECT_NE(to_text(summary).find("memory at most"), std::string::npos);
  EXPECT_EQ(to_json(summary).at("peak_resident_bytes"), summary.peak_resident);
}

TEST(Monitor, GoesOnWithATableAndReplacesNoOtherFile) {
  const testing::TemporaryFolder folder;
  const auto csv = folder / "monitor.csv";
  Monitor({csv, {}, 1s}).finish();
  const std::string first = folder.read("monitor.csv");
  folder.write("monitor.csv", first + "12.5,1");  // a full disk cut the last row off
  EXPECT_TRUE(is_monitor_table(csv));
  Monitor({csv, {}, 1s}).finish();
  EXPECT_TRUE(folder.read("monitor.csv").starts_with(first));
  EXPECT_EQ(read_csv(csv).rows.size(), 2u);

  folder.write("monitor.csv", "exam,label\n1,0\n");
  EXPECT_FALSE(is_monitor_table(csv));
  EXPECT_THROW(Monitor({csv, {}, 1s}), SystemError);
  EXPECT_EQ(folder.read("monitor.csv"), "exam,label\n1,0\n");
  Monitor({csv, {}, 1s, Existing::kReplace}).finish();
  EXPECT_EQ(read_csv(csv).rows.size(), 1u);
}

TEST(Monitor, NeedsNoFileAndNoGpu) {
  Monitor monitor({{}, {"0000:99:99.0"}, 1ms});
  EXPECT_FALSE(monitor.finish().peak_gpu_memory);
}

TEST(Monitor, SaysWhereItCannotWrite) {
  try {
    Monitor monitor({"/nonexistent/monitor.csv", {}, 1s});
    FAIL() << "expected a SystemError";
  } catch (const SystemError& error) {
    EXPECT_NE(std::string(error.what()).find("/nonexistent/monitor.csv"), std::string::npos);
  }
}

TEST(ProcessCpuSeconds, GrowsWithWork) {
  const double before = process_cpu_seconds();
  burn_until([&] { return process_cpu_seconds() > before; });
}

}  // namespace
}  // namespace coldframe
