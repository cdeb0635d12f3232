# Tests of labels, splits, metrics and reports; no LibTorch.
coldframe_test(evaluation_tests
  SOURCES
    report/event_record_test.cpp
    splits/labels_test.cpp
    metrics/metrics_calibration_test.cpp
    metrics/metrics_intervals_test.cpp
    metrics/metrics_test.cpp
    report/report_test.cpp
    splits/split_files_test.cpp
    splits/split_test.cpp
    splits/targets_test.cpp
  LINK
    coldframe_evaluation)

# Prints every metric of a CSV of scores; test_metrics.py holds it to scikit-learn.
coldframe_program(metrics_driver SOURCES metrics/metrics_driver.cpp LINK coldframe_evaluation)
set_target_properties(metrics_driver PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/tests)
