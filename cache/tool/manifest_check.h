// A cache is held against what a manifest asks for.
#pragma once

#include <filesystem>
#include <vector>

#include "cache/maintain/verify.h"
#include "cache/read/reader.h"

namespace coldframe::cache::tool {

// Findings: exams of the manifest (a CSV with columns `exam` and `path`, as `extract --input`
// takes, or a list of ids; exam_list.h) that are missing or failed, exams of the cache that it does
// not name, and stale ones: a source file has another size or modification time than when it was
// extracted, or is gone. Content is not read: a file that was only touched counts as stale, and
// `extract` then tells that its content is the same. Exams without a stamp (imported ones) and
// those of a list are never stale. DataError: no manifest.
std::vector<Finding> check_manifest(const CacheReader& cache,
                                    const std::filesystem::path& manifest);

}  // namespace coldframe::cache::tool
