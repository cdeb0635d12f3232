// New labels, patients, times or ids without extracting again.
#pragma once

#include <string>
#include <vector>

#include "cache/format/exam.h"
#include "cache/format/layout.h"

namespace coldframe::cache {

// Publishes exams whose metadata changed as new revisions with the features that the cache has, and
// removes shards in which nothing valid is left. `exams` carry the new metadata; ids must be in the
// cache and their frames the same. Whoever calls this has held the writer's lock (lock.h) since
// before it looked at the cache; a ShardWriter may be open.
void update_metadata(const Location& location, const std::vector<ExamInfo>& exams);

struct RenamedExam {
  std::string from;  // the cached exam whose features these are
  ExamInfo now;
};

// Likewise publishes `renamed` under their new ids, of which one may be the old id of another, and
// then takes `removed` out of the cache: the files that hold one of them go, once what else is
// valid in them is in a new one. A process that is killed in between leaves features under both
// ids, and loses none.
void rename_exams(const Location& location, const std::vector<RenamedExam>& renamed,
                  const std::vector<std::string>& removed);

}  // namespace coldframe::cache
