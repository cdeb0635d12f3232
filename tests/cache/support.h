// Exams and folders for the tests of the cache.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "cache/store/reader.h"
#include "cache/store/writer.h"
#include "tests/support/temporary_folder.h"

namespace coldframe::cache {

// The folder is in memory where the system offers it: the tests of damage write thousands of files.
class MemoryFolder : public coldframe::testing::TemporaryFolder {
 public:
  MemoryFolder();
};

Recipe make_recipe(const std::string& interpolation = "bicubic");
Recipe make_recipe_with_thumbnails();
Recipe with_cut(Recipe recipe, const Cut& cut);

// Values depend on id, view, frame and dimension, and are exact in float16. Every fourth frame of
// an exam with more than three is missing.
ExamFeatures make_exam(const std::string& id, std::uint64_t ordinal, std::size_t frames,
                       std::size_t dimension, const std::vector<std::string>& views = {"clean"});

// Gives every present frame some bytes of its own, which are no JPEG: `cache` never looks into
// them.
void add_thumbnails(ExamFeatures& exam);

// Gives every view rows of its own, which are finite as float16 and as float32; those of missing
// frames are not what a cache makes of them.
void add_cut(ExamFeatures& exam, const Cut& cut);

// Every field of the exam, its features, cut and thumbnails, bit by bit (NaN equals NaN).
void expect_equal(const CacheReader& cache, const ExamFeatures& exam);
void expect_equal(const ExamInfo& actual, const ExamInfo& expected);

// Each exam in a shard of its own, and small ones: a writer takes the memory of a whole shard at
// once, which tests with hundreds of writers would wait for.
WriterOptions one_exam_a_shard();

// Writes thumbnails if the exams have some, and their cut with `cut`.
void write_cache(const std::filesystem::path& path, const std::vector<ExamFeatures>& exams,
                 const WriterOptions& options = {}, const std::optional<Cut>& cut = {});

// Adds exams 1 to 3 of five frames and 40 dimensions to a cache, each in a shard of its own,
// writing the name of each to `log` when it is acknowledged.
void extend_cache(const std::filesystem::path& path, const std::filesystem::path& log);
// Exam 0 of such a cache, and all that the log names, are there.
void expect_acknowledged(const std::filesystem::path& path, const std::filesystem::path& log);

std::vector<std::byte> read_bytes(const std::filesystem::path& path);
void write_bytes(const std::filesystem::path& path, const std::vector<std::byte>& bytes);
void flip_byte(const std::filesystem::path& path, std::size_t offset);

// Names of all entries of a folder, hidden ones too.
std::vector<std::string> entries(const std::filesystem::path& folder);

}  // namespace coldframe::cache
