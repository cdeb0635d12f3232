// Random cohorts whose files are added, removed, moved and damaged between runs: an exam's id
// always answers to its own source and patient, or the run is refused.
#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <random>

#include "cache/store/pack.h"
#include "common/cli/error.h"
#include "common/cli/log.h"
#include "common/text/text.h"
#include "extract/decode/exam_spec.h"
#include "extract/input/exam_list.h"
#include "extract/pipeline/pipeline.h"
#include "extract/pipeline/recipe.h"
#include "extract/pipeline/resume.h"
#include "tests/extract/support.h"

namespace coldframe::extract {
namespace {

namespace fs = std::filesystem;

enum class Kind { kImages, kSeries, kClip };

// What one patient's exam is made of; every frame of it has its own grey level.
struct Origin {
  Kind kind;
  int level;
  std::string place;  // its folder, or (a clip) its file
  bool damaged = false;
  std::string patient() const { return kind == Kind::kImages ? "" : concat("P", level); }
};

class Cohort {
 public:
  Cohort(const fs::path& root, unsigned seed) : root_(root), random_(seed) {
    fs::create_directory(root);
  }

  void change() {
    const int what = draw(6);
    if (what < 2 || origins_.empty()) return add();
    if (what == 2 && origins_.size() > 1) return remove();
    if (what == 3) return swap();
    if (what == 4) return damage();
    move();
  }

  // The origin of an exam of the input, by its first file.
  const Origin& origin_of(const frames::ExamSpec& exam) const {
    for (const Origin& each : origins_)
      if (exam.items.front().name.starts_with(each.place)) return each;
    throw std::logic_error("no origin of " + exam.items.front().name);
  }

 private:
  int draw(int count) { return static_cast<int>(random_() % static_cast<unsigned>(count)); }
  Origin& any() { return origins_[random_() % origins_.size()]; }

  // Few, so that places are used again by others.
  std::string free_place() {
    for (int i = 0; i < 100; ++i) {
      std::string place = concat(draw(2) ? "x/" : "", "place", draw(5), "!");
      if (!fs::exists(root_ / place)) return place;
    }
    return concat("place", next_level_, "!");
  }

  void add() {
    if (next_level_ > 250) return;
    Origin origin{Kind{draw(3)}, next_level_, free_place()};
    next_level_ += 3;
    write(origin);
    origins_.push_back(origin);
  }

  void write(const Origin& origin) const {
    const fs::path path = root_ / origin.place;
    const std::string uid = concat("1.", origin.level);
    if (origin.kind == Kind::kClip)
      return write_dicom_file(path,
                              {"1.1", uid, origin.patient(), 1, 1, {origin.level, origin.level}});
    for (int i : {1, 2}) {
      if (origin.kind == Kind::kImages)
        write_grey_image(path / concat(i, ".png"), origin.level);
      else
        write_dicom_file(path / concat(i),
                         {uid, concat(uid, ".", i), origin.patient(), 1, i, {origin.level}});
    }
  }

  void remove() {
    const std::size_t at = random_() % origins_.size();
    fs::remove_all(root_ / origins_[at].place);
    origins_.erase(origins_.begin() + static_cast<std::ptrdiff_t>(at));
  }

  void move() {
    Origin& origin = any();
    const std::string place = free_place();
    fs::create_directories((root_ / place).parent_path());
    fs::rename(root_ / origin.place, root_ / place);
    origin.place = place;
  }

  void swap() {
    Origin &one = any(), &other = any();
    if (&one == &other) return;
    fs::rename(root_ / one.place, root_ / "aside");
    fs::rename(root_ / other.place, root_ / one.place);
    fs::rename(root_ / "aside", root_ / other.place);
    std::swap(one.place, other.place);
  }

  void damage() {
    Origin& origin = any();
    if (origin.damaged) {
      write(origin);
    } else {
      const fs::path path = root_ / origin.place;
      const fs::path file = origin.kind == Kind::kClip     ? path
                            : origin.kind == Kind::kImages ? path / "1.png"
                                                           : path / "1";
      fs::resize_file(file, fs::file_size(file) - 20);
    }
    origin.damaged = !origin.damaged;
  }

  fs::path root_;
  std::mt19937 random_;
  std::vector<Origin> origins_;
  int next_level_ = 5;
};

// id -> the grey level and the patient that its features are of.
using Answers = std::map<std::string, std::pair<int, std::string>>;

class Job {
 public:
  explicit Job(const fs::path& folder)
      : input_(folder / "in"), location_(cache::locate(folder / "out.cache")) {}

  // Where the cache refuses the input, it stays as it was, and a new one takes its place.
  void run() {
    input = frames::list_exams(input_, {{}, false, reader()});
    const Answers before = answers();
    try {
      extract();
    } catch (const CacheError&) {
      EXPECT_EQ(answers(), before);
      fs::remove_all(location_.path);
      extract();
    }
  }

  Answers answers() const {
    Answers found;
    if (location_.files().empty()) return found;
    const cache::CacheReader cached(location_.path);
    for (std::size_t i = 0; i < cached.exams().size(); ++i)
      found[cached.exams()[i].id] = {std::lround(cached.features(i)[0] * 255),
                                     cached.exams()[i].patient};
    return found;
  }

  frames::ExamList input;

 private:
  static frames::ReaderOptions reader() {
    frames::ReaderOptions options;
    options.keep_patient_id = true;
    return options;
  }

  void extract() {
    std::optional<cache::CacheReader> cached;
    if (!location_.files().empty()) cached.emplace(location_.path);
    const Plan plan = plan_extraction(input, {{}, reader()}, cached ? &*cached : nullptr);
    cached.reset();
    cache::update_metadata(location_, plan.metadata);
    cache::ShardWriter writer(location_, make_recipe(small_options(), backbone_), 2, {});
    const ComputeDevice cpu{torch::kCPU, &backbone_};
    run_pipeline(plan.extract, small_options(), std::span(&cpu, 1), writer);
    writer.finish();
  }

  fs::path input_;
  cache::Location location_;
  MeanBackbone backbone_;
};

class Ids : public ::testing::TestWithParam<unsigned> {};

TEST_P(Ids, NeverAnswerToAnothersSource) {
  set_quiet(true);
  const testing::TemporaryFolder scratch;
  Cohort cohort(scratch / "in", GetParam());
  Job job(scratch.path());
  for (int i = 0; i < 4; ++i) cohort.change();
  std::map<std::string, int> level_of_header_id;
  for (int step = 0; step < 12; ++step) {
    job.run();
    const Answers now = job.answers();
    for (const auto& exam : job.input.exams) {
      const Origin& origin = cohort.origin_of(exam);
      const auto found = now.find(exam.id);
      if (origin.damaged || found == now.end()) continue;
      EXPECT_EQ(found->second, std::pair(origin.level, origin.patient())) << exam.id;
      if (exam.id_from_header) {
        const auto known = level_of_header_id.emplace(exam.id, origin.level).first;
        EXPECT_EQ(known->second, origin.level) << exam.id;
      }
    }
    for (int i = 0; i < 3; ++i) cohort.change();
  }
}

INSTANTIATE_TEST_SUITE_P(Seeds, Ids, ::testing::Range(0u, 30u));

}  // namespace
}  // namespace coldframe::extract
