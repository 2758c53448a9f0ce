// The version of controller-runtime whose test suites `verify/scenarios/suites` runs. go.sum holds its checksum. Nothing is imported here.
module github.com/kube-informers/kube-informers/verify/scenarios/controller-runtime

go 1.26.0

require sigs.k8s.io/controller-runtime v0.25.2
