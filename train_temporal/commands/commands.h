// The verbs of coldframe-train_temporal: they take command-line words and return the exit code.
#pragma once

#include <string>
#include <vector>

namespace coldframe::temporal {

int run_train(const std::vector<std::string>& arguments);
int run_evaluate(const std::vector<std::string>& arguments);
int run_predict(const std::vector<std::string>& arguments);

}  // namespace coldframe::temporal
