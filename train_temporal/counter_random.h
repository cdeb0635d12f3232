// The random numbers of training: extraction draws its views with the same.
#pragma once

#include "common/counter_random.h"
