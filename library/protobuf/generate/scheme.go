package main

import (
	"sort"
	"strings"

	discoveryv2 "k8s.io/api/apidiscovery/v2"
	discoveryv2beta1 "k8s.io/api/apidiscovery/v2beta1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	metav1beta1 "k8s.io/apimachinery/pkg/apis/meta/v1beta1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clientscheme "k8s.io/client-go/kubernetes/scheme"
	apiregistrationv1 "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"
)

// newScheme returns every kind the API server of this module version serves as protobuf.
func newScheme() *runtime.Scheme {
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{
		clientscheme.AddToScheme,
		apiextensionsv1.AddToScheme,
		apiregistrationv1.AddToScheme,
		discoveryv2.AddToScheme,
		discoveryv2beta1.AddToScheme,
		metav1.AddMetaToScheme,
		metav1beta1.AddMetaToScheme,
	} {
		must(add(scheme))
	}
	metav1.AddToGroupVersion(scheme, schema.GroupVersion{Version: "v1"})
	return scheme
}

// kindsOf lists the kinds of a scheme in a fixed order. Table has JSON inside and no schema.
func kindsOf(scheme *runtime.Scheme) []schema.GroupVersionKind {
	var kinds []schema.GroupVersionKind
	for gvk := range scheme.AllKnownTypes() {
		if gvk.Version == runtime.APIVersionInternal || gvk.Kind == "Table" || gvk.Kind == "TableOptions" {
			continue
		}
		kinds = append(kinds, gvk)
	}
	sort.Slice(kinds, func(a, b int) bool {
		if x, y := kinds[a].GroupVersion().String(), kinds[b].GroupVersion().String(); x != y {
			return x < y
		}
		return kinds[a].Kind < kinds[b].Kind
	})
	return kinds
}

// isMetaKind tells whether a kind of meta/v1 is registered in every group version.
func isMetaKind(kind string) bool {
	return kind == "WatchEvent" || strings.HasSuffix(kind, "Options") && kind != "PodLogOptions" &&
		kind != "PodExecOptions" && kind != "PodAttachOptions" && kind != "PodPortForwardOptions" && kind != "PodProxyOptions" &&
		kind != "NodeProxyOptions" && kind != "ServiceProxyOptions"
}

func must(err error) {
	if err != nil {
		panic(err)
	}
}
