#include "train_temporal/explain/maps.h"

#include <cmath>
#include <limits>

#include "common/files/csv.h"
#include "common/files/exam_files.h"
#include "common/text/text.h"

namespace coldframe::temporal {
namespace {

namespace fs = std::filesystem;

constexpr const char* kTableFile = "patches.csv";
constexpr std::size_t kAllFrames = std::numeric_limits<std::size_t>::max();

// The lines of one frame: its patches, and what no patch adds.
std::string table_lines(const std::vector<std::string>& start, const torch::Tensor& map,
                        double whole) {
  std::string csv;
  const auto values = map.accessor<double, 2>();
  double sum = 0;
  const auto line = [&](const std::string& row, const std::string& column, double value) {
    std::vector<std::string> fields = start;
    fields.insert(fields.end(), {row, column, exact(value)});
    csv += csv_row(fields);
  };
  for (std::int64_t row = 0; row < map.size(0); ++row) {
    for (std::int64_t column = 0; column < map.size(1); ++column) {
      line(concat(row), concat(column), values[row][column]);
      sum += values[row][column];
    }
  }
  line("", "", whole - sum);
  return csv;
}

}  // namespace

MapWriter::MapWriter(fs::path folder, std::span<const TrainedModel> models, const Dataset& dataset,
                     const fs::path& weights)
    : folder_(std::move(folder)),
      models_(models),
      cache_(*dataset.cache),
      maps_(models.front().card, dataset, weights) {
  fs::create_directory(folder_);
}

void MapWriter::add(std::size_t place, std::span<const ExplainedExam> exams, std::size_t targets,
                    const std::function<void()>& frame_done) {
  const std::vector<torch::Tensor> maps = maps_.of(models_, exams, kAllFrames, frame_done);
  for (std::size_t i = 0; i < exams.size(); i += targets, ++place) {
    const fs::path folder = folder_ / exam_folder_name(place, cache_.exams()[exams[i].exam].id);
    fs::create_directory(folder);
    write(folder, exams.subspan(i, targets), std::span(maps).subspan(i, targets));
  }
}

void MapWriter::write(const fs::path& folder, std::span<const ExplainedExam> targets,
                      std::span<const torch::Tensor> maps) {
  const cache::ExamInfo& info = cache_.exams()[targets.front().exam];
  const torch::Tensor pixels = maps_.pixels_of(targets.front().exam, kAllFrames);
  std::string csv =
      csv_row({"frame", "time_s", "target", "class", "row", "column", "contribution"});
  for (std::size_t t = 0; t < targets.size(); ++t) {
    const ExplainedExam& explained = targets[t];
    const Target& target = models_.front().card.targets[explained.target];
    const double full = full_color(maps[t]);
    std::int64_t present = 0;
    for (std::size_t slot = 0; slot < info.frames(); ++slot) {
      if (!info.present[slot]) continue;
      const double time = info.time_s[slot];
      csv +=
          table_lines({concat(slot), std::isfinite(time) ? exact(time) : "", target.name,
                       explained.of_class ? target.classes[*explained.of_class] : ""},
                      maps[t][present], explained.values.frames[static_cast<std::size_t>(present)]);
      write_exam_file(
          folder / frame_file_name(slot, t == 0 ? ".png" : concat("-", t + 1, ".png")),
          map_picture(maps[t][present] / full, pixels.defined() ? pixels[present] : torch::Tensor(),
                      maps_.image_size()));
      ++present;
    }
  }
  write_exam_file(folder / kTableFile, csv);
}

void require_maps(const fs::path& folder) {
  require_exam_files(folder, {".png", ".csv"}, "map");
}

}  // namespace coldframe::temporal
