#include "common/threads/openmp_environment.h"

#include <cstdlib>

namespace coldframe {

void prepare_openmp_environment() {
  ::setenv("OMP_WAIT_POLICY", "passive", /*overwrite=*/0);
  ::setenv("OMP_DYNAMIC", "false", /*overwrite=*/1);
}

}  // namespace coldframe
