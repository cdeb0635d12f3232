# Labels, splits, metrics and reports: plain C++ over vectors, no LibTorch.
coldframe_library(coldframe_evaluation
  SOURCES
    calibration.cpp
    calibration_line.cpp
    metrics.cpp
    metrics_ranking.cpp
  LINK
    coldframe_common)
