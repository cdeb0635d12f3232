// Finds LibTorch before a program that needs it starts: what is wrong is then said in one sentence
// of ours instead of one of the dynamic loader.
#pragma once

namespace coldframe {

// Takes the folder of a torch package that COLDFRAME_TORCH names, else the one in which the loader
// looks by itself: beside an installed Coldframe, or in build/venv. Lets the programs that this one
// becomes find it. ConfigError for a folder without LibTorch; SystemError where there is none, or
// one of another version than Coldframe was compiled with.
void find_libtorch();

}  // namespace coldframe
