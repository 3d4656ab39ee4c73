//! Charts, exports, explanations: what people look at.

use elastune_api::trial::{CompleteRequest, Measurement, ReportRequest};
use elastune_core::model::event::MetricValue;

use super::*;

/// A study whose trial `n` measures `values[n]`, step by step.
async fn measured(service: &Service, values: &[&[f64]]) -> Study {
    let document = OUTSIDE.replace("max_trials: 4", &format!("max_trials: {}", values.len()));
    let study = service.study(&document).await;
    for suggestion in service.suggest(&study, values.len() as u32).await {
        let metric = |value: f64| [("loss".to_string(), MetricValue::new(value))].into();
        let values = values[suggestion.number as usize];
        let measurements =
            values.iter().enumerate().map(|(at, value)| Measurement { step: (at + 1) as f64, metrics: metric(*value), elapsed_s: 1.0 });
        let request = ReportRequest { lease: Some(suggestion.lease), measurements: measurements.collect() };
        if !values.is_empty() {
            service.client.report(suggestion.id, &request).await.expect("stored");
        }
        let done = CompleteRequest { lease: Some(suggestion.lease), metrics: Default::default(), infeasible: None };
        service.client.complete(suggestion.id, &done, None).await.expect("completed");
    }
    study
}

#[tokio::test]
async fn curves_show_the_best_and_how_it_was_reached() {
    let service = Service::start().await;
    let study = measured(&service, &[&[3.0, 2.0], &[5.0, 1.0], &[4.0, 4.5]]).await;
    let curves = service.client.curves(study.id, None).await.expect("curves");
    assert_eq!((curves.metric.as_str(), curves.curves.len(), curves.omitted), ("loss", 3, 0));
    assert_eq!(curves.curves[1].points, [(1.0, Some(5.0)), (2.0, Some(1.0))]);
    let best: Vec<_> = curves.best_so_far.iter().map(|point| (point.number, point.value)).collect();
    assert_eq!(best, [(0, 3.0), (0, 2.0), (1, 1.0)]);
    let request = service.ask(reqwest::Method::GET, &format!("/studies/{}/curves?max_curves=1", study.id));
    let few: elastune_api::study::Curves = service.client.json(request).await.expect("curves");
    assert_eq!((few.curves.len(), few.curves[0].number, few.omitted), (1, 1, 2));
}

#[tokio::test]
async fn equal_runs_export_equal_bytes() {
    let service = Service::start().await;
    let values: &[&[f64]] = &[&[0.1, f64::NAN], &[1e21], &[]];
    let one = measured(&service, values).await;
    let other = measured(&service, values).await;
    for format in ["csv", "json"] {
        let text = service.client.export_text(one.id, format).await.expect("an export");
        assert_eq!(text, service.client.export_text(other.id, format).await.expect("an export"));
    }
    let csv = service.client.export_text(one.id, "csv").await.expect("an export");
    let lines: Vec<_> = csv.lines().collect();
    assert_eq!(lines[0], "number,state,reason,param.x,step,metric.loss");
    assert!(lines[1].starts_with("0,failed,no_metric,0.") && lines[1].ends_with(",1.0,0.1"), "{}", lines[1]);
    assert!(lines[2].ends_with(",2.0,nan"), "{}", lines[2]);
    assert!(lines[3].starts_with("1,completed,,0.") && lines[3].ends_with(",1.0,1e+21"), "{}", lines[3]);
    assert!(lines[4].ends_with(",,"), "{}", lines[4]);
    let export = service.client.export(one.id).await.expect("an export");
    assert_eq!((export.name.as_str(), export.trials.len(), export.trials[0].measurements.len()), ("quad", 3, 2));
}

#[tokio::test]
async fn every_trial_explains_itself() {
    let service = Service::start().await;
    let study = measured(&service, &[&[1.0]]).await;
    let trial = service.client.all_trials(study.id).await.expect("trials").remove(0);
    let explain = service.client.explain(trial.id).await.expect("words");
    assert_eq!(explain.code, "completed");
    assert!(!explain.text.is_empty() && !explain.history.is_empty());
    assert!(service.client.widths(trial.id).await.expect("widths").is_empty());
    assert!(service.client.study_widths(study.id).await.expect("widths").trials.is_empty());
    assert_eq!(study.metric.name, "loss");
    assert!(service.client.checkpoints(trial.id).await.expect("checkpoints").is_empty());
}
