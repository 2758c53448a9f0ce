package controller

import (
	"context"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/gentype"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
)

// What follows is what deepcopy-gen, client-gen, informer-gen and lister-gen write for a kind.

var groupVersion = schema.GroupVersion{Group: "peers.example.com", Version: "v1"}

// Shop asks for a Deployment.
type Shop struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec   ShopSpec   `json:"spec"`
	Status ShopStatus `json:"status,omitempty"`
}

// ShopSpec names the Deployment and its size.
type ShopSpec struct {
	Deployment string `json:"deployment"`
	Replicas   *int32 `json:"replicas,omitempty"`
}

// ShopStatus is what the Deployment reports.
type ShopStatus struct {
	AvailableReplicas int32 `json:"availableReplicas"`
}

// ShopList is a list of shops.
type ShopList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	Items []Shop `json:"items"`
}

// DeepCopy copies a shop.
func (in *Shop) DeepCopy() *Shop {
	out := *in
	in.ObjectMeta.DeepCopyInto(&out.ObjectMeta)
	if in.Spec.Replicas != nil {
		replicas := *in.Spec.Replicas
		out.Spec.Replicas = &replicas
	}
	return &out
}

// DeepCopyObject copies a shop as an object.
func (in *Shop) DeepCopyObject() runtime.Object { return in.DeepCopy() }

// DeepCopyObject copies a list.
func (in *ShopList) DeepCopyObject() runtime.Object {
	out := *in
	in.ListMeta.DeepCopyInto(&out.ListMeta)
	out.Items = make([]Shop, len(in.Items))
	for i := range in.Items {
		out.Items[i] = *in.Items[i].DeepCopy()
	}
	return &out
}

var (
	scheme         = runtime.NewScheme()
	parameterCodec = runtime.NewParameterCodec(scheme)
)

func init() {
	scheme.AddKnownTypes(groupVersion, &Shop{}, &ShopList{})
	metav1.AddToGroupVersion(scheme, groupVersion)
}

// ShopInterface is the typed client of a namespace.
type ShopInterface interface {
	Create(ctx context.Context, shop *Shop, opts metav1.CreateOptions) (*Shop, error)
	Update(ctx context.Context, shop *Shop, opts metav1.UpdateOptions) (*Shop, error)
	UpdateStatus(ctx context.Context, shop *Shop, opts metav1.UpdateOptions) (*Shop, error)
	Delete(ctx context.Context, name string, opts metav1.DeleteOptions) error
	Get(ctx context.Context, name string, opts metav1.GetOptions) (*Shop, error)
	List(ctx context.Context, opts metav1.ListOptions) (*ShopList, error)
	Watch(ctx context.Context, opts metav1.ListOptions) (watch.Interface, error)
}

// Clientset is the typed client of the group.
type Clientset struct{ client rest.Interface }

// NewClientset makes a typed client.
func NewClientset(config *rest.Config) (*Clientset, error) {
	config = rest.CopyConfig(config)
	config.GroupVersion = &groupVersion
	config.APIPath = "/apis"
	config.NegotiatedSerializer = serializer.NewCodecFactory(scheme).WithoutConversion()
	client, err := rest.RESTClientFor(config)
	if err != nil {
		return nil, err
	}
	return &Clientset{client}, nil
}

// Shops is the typed client of a namespace.
func (c *Clientset) Shops(namespace string) ShopInterface {
	return gentype.NewClientWithList[*Shop, *ShopList](
		"shops", c.client, parameterCodec, namespace,
		func() *Shop { return &Shop{} },
		func() *ShopList { return &ShopList{} },
	)
}

// ShopLister reads the cache of an informer.
type ShopLister struct{ indexer cache.Indexer }

// Get reads a shop; the object must not be changed.
func (l ShopLister) Get(namespace, name string) (*Shop, error) {
	lister := cache.NewGenericLister(l.indexer, groupVersion.WithResource("shops").GroupResource())
	object, err := lister.ByNamespace(namespace).Get(name)
	if err != nil {
		return nil, err
	}
	return object.(*Shop), nil
}

// NewShopInformer makes an informer on the shops of all namespaces.
func NewShopInformer(client *Clientset, resync time.Duration) cache.SharedIndexInformer {
	shops := client.Shops(metav1.NamespaceAll)
	listWatch := &cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
			return shops.List(ctx, options)
		},
		WatchFuncWithContext: func(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
			return shops.Watch(ctx, options)
		},
	}
	return cache.NewSharedIndexInformer(listWatch, &Shop{}, resync, cache.Indexers{
		cache.NamespaceIndex: cache.MetaNamespaceIndexFunc,
	})
}
