// `coldframe doctor`: will Coldframe run here, what is missing, and what to do about it.
#pragma once

#include <string>
#include <vector>

namespace coldframe {

// Prints a line for each subject, and below it what to do where something is. What the program with
// LibTorch alone can tell comes from `coldframe-train_temporal extract doctor`. Returns the exit
// code: 1 where extract or train cannot run yet.
int doctor(const std::vector<std::string>& arguments);

}  // namespace coldframe
