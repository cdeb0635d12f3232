#include "cache/store/writer.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "cache/format/format.h"
#include "cache/store/lock.h"
#include "cache/store/pack.h"
#include "cache/store/shard_file.h"
#include "cache/store/shard_sequence.h"
#include "common/cli/error.h"
#include "common/files/publish/atomic_file.h"
#include "common/numbers/dtype.h"
#include "common/text/text.h"

namespace coldframe::cache {

namespace {

void check_options(const WriterOptions& options) {
  if (options.worker >= kMetadataWorker)
    throw ConfigError(
        concat("worker ", options.worker, " is too large; the largest is ", kMetadataWorker - 1));
  if (options.precision.empty() || options.precision.size() > kMaxText)
    throw ConfigError("the precision has no name");
}

ShardHeader make_header(const Recipe& recipe, std::int64_t dimension,
                        const WriterOptions& options) {
  if (dimension < 1 || dimension > kLargestDimension)
    throw ConfigError(concat("features of dimension ", dimension, " cannot be stored"));
  if (std::max(to_json(recipe).dump().size(), recipe.notes.dump().size()) > kMaxText)
    throw ConfigError(concat("the recipe has more than ", kMaxText,
                             " bytes as JSON and does not fit in the cache"));
  ShardHeader header;
  header.recipe = recipe;
  header.dimension = dimension;
  header.storage = options.storage;
  header.precisions = {options.precision};
  header.views = {"clean"};
  header.cut = find_cut(recipe, options.storage);
  return header;
}

// One look at what is there, at its smallest file: a writer of another recipe is refused before it
// has computed anything. (Whoever resumes has read the whole cache anyway.)
std::unique_ptr<ShardFile> smallest_file(const Location& location) {
  std::unique_ptr<ShardFile> smallest;
  with_listing(location, [&](const std::vector<std::filesystem::path>& files) {
    const auto size = [](const std::filesystem::path& file) {
      std::error_code error;
      return std::filesystem::file_size(file, error);
    };
    const auto found =
        std::min_element(files.begin(), files.end(),
                         [&](const auto& a, const auto& b) { return size(a) < size(b); });
    if (found != files.end()) smallest = std::make_unique<ShardFile>(*found);
  });
  return smallest;
}

// "clean" first, then in the order of the first exam.
std::vector<std::string> order_views(const ExamFeatures& exam) {
  std::vector<std::string> views;
  for (const ViewFeatures& view : exam.views) {
    if (std::count(views.begin(), views.end(), view.view) != 0)
      throw DataError(concat("exam '", exam.info.id, "': view '", view.view, "' occurs twice"));
    if (view.view.empty() || !is_valid_utf8(view.view) ||
        escape_name(view.view).size() >= kMaxLinkName)
      throw DataError(concat("exam '", exam.info.id, "': a view has an impossible name"));
    views.push_back(view.view);
  }
  const auto clean = std::find(views.begin(), views.end(), "clean");
  if (clean == views.end())
    throw DataError(concat("exam '", exam.info.id, "' has no view 'clean'"));
  std::rotate(views.begin(), clean, clean + 1);
  return views;
}

ViewFeatures& view_of(ExamFeatures& exam, const std::string& view, const ShardHeader& header) {
  const auto found = std::find_if(exam.views.begin(), exam.views.end(),
                                  [&](const ViewFeatures& each) { return each.view == view; });
  if (found == exam.views.end() || exam.views.size() != header.views.size())
    throw DataError(concat("exam '", exam.info.id, "' has other views than the cache (",
                           join(header.views, ", "), ")"));
  const std::size_t expected = exam.info.frames() * static_cast<std::size_t>(header.dimension);
  if (found->values.size() != expected)
    throw DataError(concat("exam '", exam.info.id, "', view '", view, "': ", found->values.size(),
                           " feature values where ", exam.info.frames(), " × ", header.dimension,
                           " were expected"));
  const std::size_t cut_bytes = header.cut ? exam.info.frames() * header.cut->row_bytes() : 0;
  if (found->cut.size() != cut_bytes)
    throw DataError(concat("exam '", exam.info.id, "', view '", view, "': ", found->cut.size(),
                           " bytes of the cut where ", cut_bytes, " were expected"));
  return *found;
}

[[noreturn]] void refuse_value(const ExamInfo& info, std::size_t frame, float value) {
  const std::string where = concat("exam '", info.id, "', frame ", frame, ": a feature is ", value);
  if (std::isfinite(value))
    throw DataError(where + ", beyond float16's range (±65504); use --store float32");
  throw DataError(where + "; the backbone did not compute a finite value from this frame");
}

// The rows of missing frames become NaN. DataError for a value that the cache cannot store.
void complete_features(const ExamInfo& info, std::span<float> values, const ShardHeader& header) {
  const auto dimension = static_cast<std::size_t>(header.dimension);
  const bool half = header.storage == DType::kFp16;
  for (std::size_t frame = 0; frame < info.frames(); ++frame) {
    const auto row = values.subspan(frame * dimension, dimension);
    if (info.present[frame] == 0) {
      std::fill(row.begin(), row.end(), std::numeric_limits<float>::quiet_NaN());
      continue;
    }
    for (const float value : row)
      if (!std::isfinite(value) || (half && std::abs(value) >= kHalfOverflow))
        refuse_value(info, frame, value);
  }
}

void fill_nan(std::span<std::byte> row, DType storage) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const auto value = storage == DType::kFp16 ? std::as_bytes(std::span(&kHalfNaN, 1))
                                             : std::as_bytes(std::span(&nan, 1));
  for (std::size_t at = 0; at < row.size(); at += value.size())
    std::ranges::copy(value, row.begin() + static_cast<std::ptrdiff_t>(at));
}

// True when no exponent is all ones, as those of infinities and NaN are.
template <typename Bits>
bool all_finite(std::span<const std::byte> row, Bits exponent) {
  bool finite = true;
  for (std::size_t at = 0; at < row.size(); at += sizeof(Bits)) {
    Bits bits;
    std::memcpy(&bits, &row[at], sizeof bits);
    finite &= (bits & exponent) != exponent;
  }
  return finite;
}

[[noreturn]] void refuse_cut(const ExamInfo& info, std::size_t frame, const Cut& cut) {
  const std::string where = concat("exam '", info.id, "', frame ", frame, ": what enters block ",
                                   cut.block, " has a value that is ");
  throw DataError(where + (cut.storage == DType::kFp16
                               ? "not finite, or beyond float16's range (±65504), for which there "
                                 "is --store float32"
                               : "not finite"));
}

// The rows of missing frames become NaN, or black.
void complete_cut(const ExamInfo& info, std::span<std::byte> rows, const Cut& cut) {
  const std::size_t row_bytes = cut.row_bytes();
  const bool half = cut.storage == DType::kFp16;
  for (std::size_t frame = 0; frame < info.frames(); ++frame) {
    const auto row = rows.subspan(frame * row_bytes, row_bytes);
    if (info.present[frame] == 0) {
      std::ranges::fill(row, std::byte{0});
      if (!cut.is_pixels()) fill_nan(row, cut.storage);
    } else if (!cut.is_pixels() && !(half ? all_finite<std::uint16_t>(row, 0x7c00)
                                          : all_finite<std::uint32_t>(row, 0x7f800000))) {
      refuse_cut(info, frame, cut);
    }
  }
}

// One for every present frame, where the recipe has them.
Thumbnails join_thumbnails(const ExamFeatures& exam, const Recipe& recipe) {
  const std::size_t expected = recipe.has_thumbnails() ? exam.info.frames() : 0;
  if (exam.thumbnails.size() != expected)
    throw DataError(concat("exam '", exam.info.id, "': ", exam.thumbnails.size(),
                           " thumbnails where ", expected, " were expected"));
  Thumbnails joined;
  for (std::size_t t = 0; t < expected; ++t) {
    const std::string& file = exam.thumbnails[t];
    if (file.empty() == (exam.info.present[t] != 0))
      throw DataError(concat("exam '", exam.info.id, "', frame ", t, ": ",
                             file.empty() ? "a frame that is there has no thumbnail"
                                          : "a frame that is missing has a thumbnail"));
    const auto bytes = std::as_bytes(std::span(file));
    joined.sizes.push_back(file.size());
    joined.bytes.insert(joined.bytes.end(), bytes.begin(), bytes.end());
  }
  return joined;
}

}  // namespace

struct ShardWriter::State {
  Location location;
  WriterLock lock;
  std::unique_ptr<ShardSequence> shards;
  bool views_known = false;
};

ShardWriter::ShardWriter(const Location& location, const Recipe& recipe, std::int64_t dimension,
                         WriterOptions options, const FileLock* held)
    : state_(std::make_unique<State>()) {
  check_options(options);
  ShardHeader header = make_header(recipe, dimension, options);
  State& state = *state_;
  state.location = location;
  if (options.shared)
    create_folders_durably(location.shard_folder());
  else if (held == nullptr)
    state.lock = lock_writer(location, options.worker);
  if (const std::unique_ptr<ShardFile> existing = smallest_file(location)) {
    const ShardContents& contents = existing->contents();
    header.views = contents.header.views;
    require_same_cache(contents.header, header, location.path.string(),
                       "\nUse another --out, or the options of the cache.");
    state.views_known = !contents.exams.empty();
  }
  state.shards = std::make_unique<ShardSequence>(location, std::move(header), options);
  state.shards->on_published = [this](std::size_t exams) {
    if (on_published) on_published(exams);
  };
}

ShardWriter::~ShardWriter() = default;

void ShardWriter::add(ExamFeatures exam) {
  ShardSequence& shards = *state_->shards;
  if (exam.info.frames() == 0) throw DataError(concat("exam '", exam.info.id, "' has no frames"));
  const std::vector<std::string> views = order_views(exam);
  if (!state_->views_known) shards.set_views(views);
  state_->views_known = true;
  const ShardHeader& header = shards.header();
  std::vector<ViewFeatures*> of_view;
  for (const std::string& view : header.views) {
    of_view.push_back(&view_of(exam, view, header));
    complete_features(exam.info, of_view.back()->values, header);
    if (header.cut) complete_cut(exam.info, of_view.back()->cut, *header.cut);
  }
  Thumbnails thumbnails = join_thumbnails(exam, header.recipe);
  // Features are rounded to float16 here, unless the cache stores float32 (store(),
  // common/numbers/dtype.h); the cut is rounded in extract/pipeline/feature_sink.cpp.
  const auto fill = [&](std::size_t array, std::span<std::byte> rows) {
    if (array < of_view.size())
      store(of_view[array]->values, header.storage, rows);
    else
      std::ranges::copy(of_view[array - of_view.size()]->cut, rows.begin());
  };
  shards.add(std::move(exam.info), fill, std::move(thumbnails));
}

void ShardWriter::add_failure(const Failure& failure) {
  state_->shards->add_failure(failure);
}

void ShardWriter::publish() {
  state_->shards->publish();
}

void ShardWriter::finish() {
  publish();
  pack(state_->location);
  state_->lock.reset();
}

}  // namespace coldframe::cache
