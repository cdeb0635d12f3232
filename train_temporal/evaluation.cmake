# Labels, splits, metrics and reports: plain C++ over vectors, no LibTorch.
coldframe_library(coldframe_evaluation
  SOURCES
    metrics/calibration.cpp
    metrics/calibration_line.cpp
    metrics/intervals.cpp
    metrics/metrics.cpp
    metrics/metrics_ranking.cpp
    report/report.cpp
    report/report_charts.cpp
    report/report_contributions.cpp
    report/report_curves.cpp
    report/report_summary.cpp
    report/report_text.cpp
    report/report_verdict.cpp
    run_list.cpp
    splits/labels.cpp
    splits/split.cpp
    splits/split_assign.cpp
    splits/split_files.cpp
    splits/split_parts.cpp
    tensorboard/event_file.cpp
    tensorboard/event_record.cpp
  LINK
    coldframe_cache coldframe_common)
