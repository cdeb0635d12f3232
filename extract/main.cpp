// coldframe-extract: `coldframe extract` without the temporal model, for those who work on it. What
// is installed runs it by coldframe-train_temporal, which holds both.
#include "common/cli/cli.h"
#include "common/torch/device.h"
#include "extract/command.h"

int main(int argc, char** argv) {
  const int code = coldframe::run_main(argc, argv, coldframe::extract::run_extract);
  coldframe::end_loading_cuda();
  return code;
}
