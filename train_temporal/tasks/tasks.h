// The list of tasks. A new one is a file of its own and a line in each part of this list.
#pragma once

namespace coldframe::temporal {

class TaskKind;

enum class Task { kBinary, kMulticlass, kOrdinal, kRegression, kCox };

const TaskKind& binary_task();      // classes.cpp
const TaskKind& multiclass_task();  // classes.cpp
const TaskKind& ordinal_task();     // ordinal.cpp
const TaskKind& regression_task();  // number.cpp
const TaskKind& cox_task();         // cox.cpp

inline constexpr const TaskKind& (*kTasks[])() = {binary_task, multiclass_task, ordinal_task,
                                                  regression_task, cox_task};

}  // namespace coldframe::temporal
