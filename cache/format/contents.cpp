#include "cache/format/contents.h"

#include <utility>

#include "cache/format/format.h"
#include "common/cli/error.h"
#include "common/text/text.h"

namespace coldframe::cache {

RowArray ShardHeader::array(std::size_t number) const {
  const bool is_cut = number >= views.size();
  const std::string& view = views[is_cut ? number - views.size() : number];
  if (!is_cut)
    return {concat("features of view ", view),
            join_path(kFeatures, escape_name(view)),
            storage,
            {static_cast<std::uint64_t>(dimension)}};
  return {concat("cut rows of view ", view),
          join_path(kCut, escape_name(view)),
          cut->type(),
          {cut->shape.begin(), cut->shape.end()}};
}

void require_same_cache(const ShardHeader& first, const ShardHeader& other, const std::string& name,
                        const std::string& advice) {
  std::vector<std::string> lines = differences(first.recipe, other.recipe);
  const auto compare = [&](const char* key, const std::string& cached, const std::string& now) {
    if (cached != now) lines.push_back(difference(key, cached, now));
  };
  compare("dimension", std::to_string(first.dimension), std::to_string(other.dimension));
  compare("storage", dtype_name(first.storage), dtype_name(other.storage));
  compare("views", join(first.views, ", "), join(other.views, ", "));
  if (lines.empty()) return;
  throw CacheError(concat(name, ": made with another recipe than the rest of the cache:\n  ",
                          join(lines, "\n  "), advice));
}

ExamBytes exam_by_exam(const ShardContents& contents, ReadRows read_rows,
                       ReadThumbnails read_thumbnails) {
  const auto rows = [&contents, read_rows = std::move(read_rows)](std::size_t array,
                                                                  const Append& append) {
    std::vector<std::byte> bytes;
    for (std::size_t exam = 0; exam < contents.exams.size(); ++exam) {
      bytes.resize(contents.exams[exam].info.frames() * contents.header.row_bytes(array));
      read_rows(exam, array, bytes);
      append(bytes);
    }
  };
  const auto thumbnails = [&contents,
                           read_thumbnails = std::move(read_thumbnails)](const Append& append) {
    std::vector<std::byte> bytes;
    for (std::size_t exam = 0; exam < contents.exams.size(); ++exam) {
      bytes.resize(contents.exams[exam].thumbnails.bytes());
      read_thumbnails(exam, bytes);
      append(bytes);
    }
  };
  return {rows, thumbnails};
}

}  // namespace coldframe::cache
