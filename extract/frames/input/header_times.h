// The order of an exam's files where the manifest states no times, but their headers do.
#pragma once

#include "extract/frames/input/exam_list.h"

namespace coldframe::frames {

// Checks the order of an exam whose times come from headers (ExamSpec::times_from_headers) and
// leaves one alone in which it is right, or in which a file states no time or cannot be read. Where
// acquisition tells no two files apart, but frame_order.h does by time, its times count. With
// `sort_by_time` the items come into the order of time. With `allow_unordered` the items state the
// times, which decrease. Else times that decrease are a DataError.
void settle_header_times(ExamSpec& exam, const ExamListOptions& options);

}  // namespace coldframe::frames
