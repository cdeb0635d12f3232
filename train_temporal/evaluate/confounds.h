// Confounding: how well one trait of the exams, such as the site, predicts their labels by itself.
// What a model reaches may then come from the trait, and not from what the images show.
//
// A trait predicts a held-out exam by the class rates (of numbers: by the mean) of the training
// patients' exams with its value; of numeric traits, of those in its fifth of all exams. A number
// that fills a fifth by itself, as 0 does where most exams have it, is a value of its own. Each
// patient counts once, and one patient of average rates is added to each value, so that rare values
// say little and unknown ones nothing (target encoding: Micci-Barreca 2001,
// doi:10.1145/507533.507538). Five folds by patient, dealt out in turn by class, or fewer if a
// class has fewer patients (but more than one).
//
// A trait is found if its figure, as the mean over the folds, is better than that of draws in which
// each patient has another one's values (permutation test; p by Phipson and Smyth 2010,
// doi:10.2202/1544-6115.1585), at 0.05 / the number of traits (Bonferroni). The draws of a trait
// end once so many are as good that it is not found (Besag and Clifford 1991,
// doi:10.1093/biomet/78.2.301). They come from a seed of their own.
//
// A trait that is found may be the label in other words, as a grade of severity is. That is taken
// to be so where half of the patients of each of two classes have a value of which nearly all
// patients (95 %) have that class; where nearly all patients of each class have one value, not the
// same one; and where a trait ranks numbers at 0.9. Five patients at least have such a value or
// class. Classes that come from different places look the same: nothing in the labels tells the two
// apart, and holding such a place out leaves one class.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "train_temporal/evaluate/intervals.h"
#include "train_temporal/evaluate/metric_table.h"

namespace coldframe::temporal {

// Labelled exams: classes, or numbers.
struct ConfoundLabels {
  std::vector<std::size_t> patient;  // [N] any numbering
  std::vector<int> label;            // [N] class; of numbers 0
  std::size_t classes = 0;           // 0: numbers
  std::vector<double> number = {};   // [N]; empty: classes
};

struct TraitName {
  std::string name;
  bool of_file = false;  // how the exam was acquired or stored, not a column
};

struct ExamTrait {
  std::string name;
  bool of_file = false;
  std::vector<std::string> values;  // [N], "" if missing
};

// The exams with one value of a trait, all of one class.
struct OneClassValue {
  std::string value;
  int of_class = 0;
  std::size_t exams = 0, exams_of_class = 0, patients = 0;
};

// With intervals: the strongest, those that may be the label in other words after the others.
inline constexpr std::size_t kBoundedConfounds = 10;

struct Confound {
  std::string name;
  bool of_file = false, numeric = false;
  // Of the trait alone, on held-out patients. No interval if a fold lacks a class, and beyond
  // kBoundedConfounds; of more than a hundred patients it comes from that many blocks of them.
  Estimate figure;
  double p = 1;  // of draws that predict as well
  // True if all exams with a value have one class, for each value: the label in other words, or
  // classes that come from different places.
  bool tells_class = false;
  // True of a column that may be the label in other words: see above.
  bool may_be_label = false;
  // The most frequent such value, if at least five patients have it; else `exams` is 0.
  OneClassValue one_class = {};
};

struct Confounds {
  Metric metric = nullptr;  // AUROC (several classes: macro), of numbers Spearman's correlation
  std::size_t columns = 0, properties = 0;  // how many were looked at
  double p_limit = 0;                       // 0.05 / looked_at()
  std::vector<Confound> found;              // p is at most that; the highest figure first
  std::vector<TraitName> not_found;         // in the order of the traits

  std::size_t looked_at() const { return columns + properties; }
};

// The predictions of a trait for held-out exams, by fold.
std::vector<FoldScores> foretold(const ConfoundLabels& labels, const ExamTrait& trait);

// Traits of which no patients share a value, or which have one value only, are not looked at.
// `level`: of the intervals of the result.
Confounds find_confounds(const ConfoundLabels& labels, const std::vector<ExamTrait>& traits,
                         double level);

}  // namespace coldframe::temporal
